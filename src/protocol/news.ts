// News of a run that has ended: what was found of it afterwards. They change nothing but the run's version and its
// chain, are few, and the same fact is told once, however often it is found.
import { draft, type EventOf, newsTypes } from '../core/events.ts';
import { limits } from '../core/limits.ts';
import { isTerminalRun } from '../core/states.ts';
import { cutText } from '../core/text.ts';
import { type Decision, protocol } from './protocol.ts';
import { read } from './reads.ts';

export type NewsType = 'workflow.leftover_found' | 'workflow.stop_forced' | 'workflow.late_receipt_found';

export type RecordNewsInput = {
  readonly runId: string;
  /** One fact of each type is told of an attempt. */
  readonly attemptId: string;
  readonly type: NewsType;
  readonly summary: string;
  /** The run's version when the fact was found, or earlier: its news are among its last events. */
  readonly version: number;
};

export type RecordNewsOutcome = {
  readonly kind:
    | 'recorded'
    /** It was told before. */
    | 'existing'
    /** The run has as many as it may have. */
    | 'full'
    /** The run goes on: the fact belongs to its attempt's end, if anywhere. */
    | 'running'
    | 'not-found';
};

/** Lost answer: record it again; what was committed then is `existing`. */
export const recordNews = protocol({
  name: 'record-news',
  load: ({ runId, version }: RecordNewsInput) => ({
    rows: read('wholeRun', { runId }),
    last: read('events', { runId, after: Math.max(0, version - limits.newsPerRunMax), limit: limits.pageMax }),
  }),
  decide: ({ rows, last }, { attemptId, type, summary }): Decision<RecordNewsOutcome> => {
    const attempt = rows?.attempts.get(attemptId);
    if (rows === null || attempt === undefined) {
      return { outcome: { kind: 'not-found' } };
    }
    if (!isTerminalRun(rows.run.status)) {
      return { outcome: { kind: 'running' } };
    }
    const news = last.filter((event): event is EventOf<NewsType> => newsTypes.includes(event.type));
    if (news.some((event) => event.type === type && event.attemptId === attemptId)) {
      return { outcome: { kind: 'existing' } };
    }
    if (news.length >= limits.newsPerRunMax) {
      return { outcome: { kind: 'full' } };
    }
    const payload = { summary: cutText(summary, limits.errorSummaryBytesMax) };
    const events = [draft(type, payload, { stepRunId: attempt.stepRunId, attemptId })];
    return { outcome: { kind: 'recorded' }, append: { rows, events } };
  },
});
