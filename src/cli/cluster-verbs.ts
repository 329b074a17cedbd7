// What is asked of a cluster's database without serving it: answered from the database, whoever carries the run on.
import { EdgeError } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { type RunSummary, read } from '../protocol/reads.ts';
import { cancelShared } from '../runtime/cluster.ts';
import { shareContents } from '../runtime/cluster-packages.ts';
import { openEngine } from '../runtime/engine.ts';
import { inspectRun, inspectRunSummary } from '../runtime/inspection.ts';
import { createStarts } from '../runtime/starts.ts';
import { verifyRun } from '../runtime/verification.ts';
import type { Leases, SharedStore } from '../store/leases.ts';
import type { Store } from '../store/store.ts';
import type { ClusterCall } from './cluster-call.ts';
import { exitCodes } from './failure.ts';
import { operatorName } from './operator.ts';

type Asked = { readonly call: ClusterCall; readonly shared: SharedStore; readonly leases: Leases };

/** Returns the exit code. */
export async function askCluster(call: ClusterCall): Promise<number> {
  const { url, adapter, log, leaseMs } = call;
  const shared = await adapter.openStore(url, call, log);
  const leases = adapter.openLeases(url, call, leaseMs);
  try {
    return await answer({ call, shared, leases });
  } finally {
    await leases.close();
    await shared.close();
  }
}

async function answer(asked: Asked): Promise<number> {
  const { call, shared, leases } = asked;
  const [group = '', verb = '', subject = ''] = call.words;
  switch (`${group} ${verb}`.trim()) {
    case 'package install':
      return await install(asked, subject);
    case 'workflow start':
      return await start(asked, subject);
    case 'runs list': {
      const request = { limit: limits.pageMax, status: null, packageName: null, beforeRunId: null };
      call.print({ runs: (await shared.read(read('runs', request))).map(inspectRunSummary) });
      return exitCodes.done;
    }
    case 'runs show':
      return await show(asked, subject);
    case 'runs cancel': {
      const outcome = await cancelShared({ ...call, shared, leases }, { runId: subject, requestedBy: operatorName() });
      call.print({ runId: subject, ...outcome });
      return outcome.kind === 'not-found' ? exitCodes.refused : exitCodes.done;
    }
    case 'runs retry':
      return await retry(asked, subject);
    case 'verify':
      return await verify(asked);
    default:
      throw new EdgeError('invalid', `${call.words.join(' ')} is no command`, { hint: 'see --help' });
  }
}

/** An engine that only records what it is told; the shared store stays open when it ends. */
async function withVerbs<T>(
  { call, shared }: Asked,
  work: (engine: Awaited<ReturnType<typeof openEngine>>) => Promise<T>,
) {
  const { data, settings, log } = call;
  const whole: Store = { ...shared, wake: () => {}, close: async () => {} };
  const engine = await openEngine({
    ...{ data, settings, log, handlers: {}, runDirectory: null, onOutput: null },
    drives: false,
    openStore: async () => whole,
    sharing: { createStarts, whole, startByUptimeMs: () => Number.POSITIVE_INFINITY },
  });
  try {
    return await work(engine);
  } finally {
    await engine.close('detach');
  }
}

async function install(asked: Asked, directory: string): Promise<number> {
  const { checkPackage } = await import('../runtime/package-source.ts');
  await shareContents(asked.leases, await checkPackage(directory));
  return await withVerbs(asked, async ({ verbs }) => {
    const { outcome, ...report } = await verbs.install({ path: directory });
    asked.call.print({ ...report, outcome: outcome.kind });
    return outcome.kind === 'not-allowed' ? exitCodes.refused : exitCodes.done;
  });
}

async function start(asked: Asked, target: string): Promise<number> {
  const [packageName = '', workflowId = ''] = target.split('/');
  const { key } = asked.call;
  return await withVerbs(asked, async ({ verbs }) => {
    const request = { packageName, workflowId, idempotencyKey: key, requestedBy: operatorName() };
    const outcome = await verbs.start(request);
    await asked.leases.notify('work');
    asked.call.print('receipt' in outcome ? { outcome: outcome.kind, runId: outcome.receipt.runId } : outcome);
    return 'receipt' in outcome ? exitCodes.done : exitCodes.refused;
  });
}

async function retry(asked: Asked, runId: string): Promise<number> {
  return await withVerbs(asked, async ({ verbs }) => {
    const outcome = await verbs.retry({ runId, idempotencyKey: asked.call.key, requestedBy: operatorName() });
    await asked.leases.notify('work');
    asked.call.print('receipt' in outcome ? { outcome: outcome.kind, runId: outcome.receipt.runId } : outcome);
    return 'receipt' in outcome ? exitCodes.done : exitCodes.refused;
  });
}

async function show({ call, shared }: Asked, runId: string): Promise<number> {
  const rows = await shared.read(read('wholeRun', { runId }));
  const admission = await shared.read(read('admissionOfRun', { runId }));
  if (rows === null || admission === null) {
    throw new EdgeError('not-found', `run ${runId} is unknown`, { hint: 'see `runs list`' });
  }
  call.print(inspectRun(rows, admission, await shared.read(read('retriesOfRun', { runId, limit: limits.pageMax }))));
  return exitCodes.done;
}

async function verify({ call, shared }: Asked): Promise<number> {
  let runs = 0;
  let events = 0;
  const unsound: unknown[] = [];
  let beforeRunId: string | null = null;
  for (;;) {
    const request = { limit: limits.pageMax, status: null, packageName: null, beforeRunId };
    const page: readonly RunSummary[] = await shared.read(read('runs', request));
    for (const { runId } of page) {
      const verification = await verifyRun(shared, runId);
      runs += 1;
      events += verification.events;
      if (verification.differences.length > 0) {
        unsound.push(verification);
      }
    }
    if (page.length < limits.pageMax) {
      break;
    }
    beforeRunId = page.at(-1)?.runId ?? null;
  }
  call.print({ isSound: unsound.length === 0, runs, events, unsound });
  return unsound.length === 0 ? exitCodes.done : exitCodes.damaged;
}
