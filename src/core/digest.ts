// Domain-separated digests: each kind of record has its own versioned label, so that no digest of one kind can stand
// for another.
import { canonicalJson } from './canonical-json.ts';
import { sha256 } from './hash.ts';

export const digestLabels = {
  plan: 'qinglong/workflow-plan@v1',
  receipt: 'qinglong/workflow-admission-receipt@v1',
  run: 'qinglong/run@v1',
  runHistory: 'qinglong/run-history@v1',
  stepRun: 'qinglong/step-run@v1',
  attempt: 'qinglong/run-attempt@v1',
  publication: 'qinglong/automation-publication@v1',
  lifecycleEvent: 'qinglong/package-lifecycle-event@v1',
  generation: 'qinglong/package-generation@v1',
  execution: 'qinglong/task-execution@v1',
  packageSetting: 'qinglong/package-setting@v1',
  publisherKeyId: 'qinglong/publisher-key-id@v1',
  eventId: 'qinglong/run-event-id@v1',
  mutationId: 'qinglong/step-run-mutation-id@v1',
  attemptId: 'qinglong/run-attempt-id@v1',
  stepRunId: 'qinglong/step-run-id@v1',
} as const;

/** SHA-256 of the UTF-8 bytes of label, one NUL, and the canonical JSON of the value; 64 lowercase hex digits. */
export function digest(label: string, value: unknown): string {
  return digestOfText(label, canonicalJson(value));
}

/** As `digest`, of a value whose canonical text is there already. */
export function digestOfText(label: string, text: string): string {
  return sha256(`${label}\0${text}`);
}
