// The comparison behind `npm run stress` finds what it is there for: real records of real runs, with one lie in them.
import t from 'tap';
import { type Claim, compareMixedRuns } from '../../edge-evidence/stress/compare.ts';
import { packageName, writeMixedPackage } from '../../edge-evidence/stress/mixed-package.ts';
import { type RunRecord, readRecords } from '../../edge-evidence/stress/records.ts';
import { callBundle, closeSite, makeSite } from '../../edge-evidence/stress/site.ts';
import { readTrace, type TraceLine } from '../../edge-evidence/stress/trace.ts';

type World = { records: RunRecord[]; trace: TraceLine[]; claims: Claim[] };

let records: readonly RunRecord[] = [];
let trace: readonly TraceLine[] = [];

t.before(async () => {
  const site = makeSite('standalone');
  try {
    await callBundle(site, 'package', 'install', writeMixedPackage(site));
    for (const workflowId of ['chain', 'failing', 'retried']) {
      await callBundle(site, 'workflow', 'start', `${packageName}/${workflowId}`);
    }
    await callBundle(site, 'serve', '--until-idle');
    ({ records } = await readRecords(site));
    trace = readTrace(site);
  } finally {
    closeSite(site);
  }
});

function differencesOf(change: (world: World) => void): readonly string[] {
  const world = { records: structuredClone(records) as RunRecord[], trace: [...trace], claims: [] as Claim[] };
  change(world);
  return compareMixedRuns(world.records, world.trace, world.claims);
}

function find(world: World, workflowId: string): RunRecord {
  return world.records.find(({ run }) => run.workflowId === workflowId)!;
}

/** Where the trace of the chain's first step has its end. */
function endOfFirst(world: World): number {
  const { id } = find(world, 'chain').run;
  return world.trace.findIndex(({ runId, stepKey, kind }) => runId === id && stepKey === 'a' && kind === 'end');
}

function alter<T extends object>(record: T, fields: Partial<T>): void {
  Object.assign(record, fields);
}

const lies: Readonly<Record<string, { readonly change: (world: World) => void; readonly says: RegExp }>> = {
  'a command that ran twice': { change: ({ trace }) => trace.unshift(trace[0]!), says: /ran 2 times/ },
  'a command without a record': {
    change: ({ trace }) => trace.push({ ...trace[0]!, attemptId: 'at-other' }),
    says: /which has no record/,
  },
  'a run without a record': { change: ({ records }) => records.pop(), says: /left a trace and has no record/ },
  'a command that never ran': { change: ({ trace }) => trace.splice(0, 2), says: /left no trace/ },
  'a command that never ended': {
    change: (world) => world.trace.splice(endOfFirst(world), 1),
    says: /stopped before its end/,
  },
  'another exit status': {
    change: (world) => {
      const at = endOfFirst(world);
      world.trace[at] = { ...world.trace[at]!, status: 9 };
    },
    says: /its command ended with 9/,
  },
  'a failure that is recorded as success': {
    change: (world) => {
      const step = find(world, 'failing').steps.find(({ stepKey }) => stepKey === 'b')!;
      alter(step.attempts[0]!, { status: 'succeeded' });
    },
    says: /its command ended with 3/,
  },
  'an end that is lost': {
    change: (world) => alter(find(world, 'chain').steps[0]!.attempts[0]!, { status: 'lost', exitCode: null }),
    says: /its command ended with 0/,
  },
  'a start that was taken back, of a command that ran': {
    change: (world) => alter(find(world, 'chain').steps[0]!.attempts[0]!, { errorCode: 'start_withdrawn' }),
    says: /never started/,
  },
  'a run that goes on': {
    change: (world) => alter(find(world, 'chain').run, { status: 'running' }),
    says: /not ended/,
  },
  'a step that ended otherwise': {
    change: (world) => alter(find(world, 'chain').steps[0]!, { status: 'failed' }),
    says: /fold to its present[\s\S]*ended failed after 1 commands/,
  },
  'a version that its history does not have': {
    change: (world) => alter(find(world, 'chain').run, { version: 1 }),
    says: /fold to its present/,
  },
  'an event that is missing': {
    change: (world) => alter(find(world, 'chain'), { events: find(world, 'chain').events.slice(1) }),
    says: /no run can have/,
  },
  'an event after the end': {
    change: (world) => {
      const { events } = find(world, 'chain');
      alter(find(world, 'chain'), { events: [...events, events[3]!] });
    },
    says: /came after its end/,
  },
  'a step that began before its need had ended': {
    change: ({ trace }) => {
      const [begin] = trace.splice(
        trace.findIndex(({ stepKey, kind }) => stepKey === 'c' && kind === 'begin'),
        1,
      );
      trace.unshift(begin!);
    },
    says: /began before b had ended well/,
  },
  'a cancel that did not hold': {
    change: (world) => world.claims.push({ runId: find(world, 'chain').run.id, linesAtAnswer: 0 }),
    says: /was cancelled, and ended succeeded[\s\S]*began after cancel had answered/,
  },
};

t.test('the truth has no differences', async (t) => {
  t.same(
    differencesOf(() => {}),
    [],
  );
  t.equal(records.length, 3);
  t.ok(trace.length > 10);
});

for (const [what, { change, says }] of Object.entries(lies)) {
  t.test(`${what} is a difference`, async (t) => {
    t.match(differencesOf(change).join('\n'), says);
  });
}
