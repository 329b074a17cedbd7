// A primary that is killed while two runtimes ask for more than it can do: what each request was told against what the
// promoted standby has. Nothing is staged here: where the kill strikes is up to the machine.
import { type Fresh, findWrongEnd, readRuns } from './after.ts';
import { type Admitted, type Drill, noteReceipt, planRun, versionOf } from './drill.ts';
import { gates } from './gates.ts';
import { admissionOf, findOtherReceipts, type KnownRun } from './ledger.ts';
import { workflowIds } from './package.ts';
import { promote } from './replication.ts';
import type { Answer } from './runtime-process.ts';

const requestsOfEach = 40;
/** As soon as so many have been acknowledged, the primary dies. */
const acknowledgedBeforeKill = 12;

type Asked = { readonly run: KnownRun; readonly answer: Answer };

/** The primary is `next` now, and `old` its synchronous standby. */
export async function failUnderLoad(drill: Drill, fresh: Fresh): Promise<void> {
  const { old, next, startRuntime, openSession } = drill.ground;
  const found = drill.board.at(gates.loaded);
  const asked = await killUnderLoad(drill, fresh);
  await promote(old);
  const kindOf = ({ answer }: Asked) =>
    'outcome' in answer ? 'acknowledged' : 'failure' in answer ? answer.failure.code : 'gone';
  const watch = await openSession(old);
  let happened = 0;
  for (const entry of asked) {
    const isThere = (await versionOf(watch, entry.run.plan.runId)) > 0;
    const kind = kindOf(entry);
    happened += isThere && kind === 'unknown-outcome' ? 1 : 0;
    const isRight = kind === 'unknown-outcome' || isThere === (kind === 'acknowledged');
    found.expect(isRight, `an admission told as ${kind} ${isThere ? 'is' : 'is not'} there`);
  }
  const runtime = await startRuntime(old);
  const runs = asked.map(({ run }) => run);
  found.take(await findOtherReceipts(runtime, runs));
  for (const run of runs.filter(({ receipt }) => receipt === null)) {
    const outcome = await runtime.order<Admitted>(admissionOf(run.plan));
    noteReceipt(run, outcome, outcome.kind === 'existing' ? 'existing' : 'created');
  }
  await runtime.order({ verb: 'carryOn', isBackwards: false });
  found.take((await readRuns(runtime, runs)).flatMap(findWrongEnd));
  const count = (kind: string) => asked.filter((entry) => kindOf(entry) === kind).length;
  found.expect(count('unknown-outcome') > 0, 'the kill met nobody at work');
  found.figure('acknowledged', count('acknowledged'));
  found.figure('unknown', count('unknown-outcome'));
  found.figure('unknownThere', happened);
  found.figure('refused', asked.length - count('acknowledged') - count('unknown-outcome'));
  drill.log(`killed under load: ${count('acknowledged')} of ${asked.length} were acknowledged; ${next.name} is down`);
}

/** All requests at once; answers what each was told. */
async function killUnderLoad(drill: Drill, fresh: Fresh): Promise<readonly Asked[]> {
  const { next } = drill.ground;
  let acknowledged = 0;
  const enough = Promise.withResolvers<void>();
  const requests = fresh.flatMap((runtime) =>
    Array.from({ length: requestsOfEach }, async (_, index): Promise<Asked> => {
      const run = planRun(drill, workflowIds[index % workflowIds.length]!);
      const answer = await runtime.give(admissionOf(run.plan)).answer;
      if ('outcome' in answer) {
        noteReceipt(run, answer.outcome as Admitted, 'created');
        acknowledged += 1;
        if (acknowledged === acknowledgedBeforeKill) {
          enough.resolve();
        }
      }
      return { run, answer };
    }),
  );
  const all = Promise.all(requests);
  // Whichever comes first: with too few acknowledgements there is nothing to wait for.
  await Promise.race([enough.promise, all]);
  await next.crash();
  return all;
}
