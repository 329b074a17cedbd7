// What the product says: the records of its runs, read through the shipped library when nobody else holds the
// directory.
import type { RunEvent } from '../../src/core/events.ts';
import { callBundle, libraryFile, type Site, startNode } from './site.ts';

export type AttemptRecord = {
  readonly id: string;
  readonly number: number;
  readonly status: string;
  readonly exitCode: number | null;
  readonly errorCode: string | null;
  readonly finishedAtMs: number | null;
  readonly outputBytes: number | null;
  readonly outputTruncated: boolean | null;
};

export type StepRecord = {
  readonly stepRunId: string;
  readonly stepKey: string;
  readonly status: string;
  readonly version: number;
  readonly attemptCount: number;
  readonly needs: readonly string[];
  readonly resultCode: string | null;
  readonly attempts: readonly AttemptRecord[];
};

export type RunRecord = {
  readonly run: {
    readonly id: string;
    readonly status: string;
    readonly version: number;
    readonly workflowId: string;
    readonly idempotencyKey: string | null;
    readonly cancelRequestedAtMs: number | null;
    readonly cancelReason: string | null;
  };
  readonly steps: readonly StepRecord[];
  readonly events: readonly RunEvent[];
};

const readerProgram = `
const { openRuntime } = require(process.argv[1]);
const { readFileSync } = require('node:fs');
const [, , data, runDirectory] = process.argv;
(async () => {
  const runtime = await openRuntime({ data, runDirectory });
  for (const id of readFileSync(0, 'utf8').split(' ').filter((word) => word !== '')) {
    const { run, steps } = await runtime.run(id);
    const events = [];
    if (run.status !== 'running') {
      for await (const event of runtime.events(id)) events.push(event);
    }
    console.log(JSON.stringify({ run, steps, events }));
  }
  await runtime.close();
})();
`;

const runsMax = 10_000;

/** All runs of a site. What could not be read is told in `differences`. */
export async function readRecords(
  site: Site,
): Promise<{ readonly records: readonly RunRecord[]; readonly differences: readonly string[] }> {
  const listed = await callBundle(site, 'runs', 'list', '--json', '--limit', `${runsMax}`);
  if (listed.code !== 0) {
    return { records: [], differences: [`runs list ended with ${listed.code}: ${listed.err.trim()}`] };
  }
  const { runs } = JSON.parse(listed.out) as { readonly runs: readonly { readonly id: string }[] };
  const args = ['-e', readerProgram, libraryFile, site.data, site.run];
  const ended = await startNode(site, args, runs.map(({ id }) => id).join(' ')).ended;
  const lines = ended.out.split('\n').filter((line) => line !== '');
  const records = lines.map((line) => JSON.parse(line) as RunRecord);
  const isWhole = ended.code === 0 && records.length === runs.length;
  return {
    records,
    differences: isWhole ? [] : [`only ${records.length} of ${runs.length} runs can be read: ${ended.err.trim()}`],
  };
}
