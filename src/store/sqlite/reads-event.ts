// Reads of a run's history. Events lie in the order of commits; each leads to the one before it in its run, and every
// 32nd can be found at once. So a page is read backwards, from the first of those behind it, or else from the run's
// last event.
import type { DatabaseSync } from 'node:sqlite';
import { assert } from '../../core/errors.ts';
import type { RunEvent } from '../../core/events.ts';
import type { Plan } from '../../core/plan.ts';
import { damaged } from '../damaged.ts';
import { decodeEvent, type EventRow } from './rows-event.ts';
import { statement } from './statement.ts';

// A link that leads to another run or skips an event ends the walk, so that damage is a gap and never a loop.
const selectPageSql = `WITH RECURSIVE
  page (eventKey, previousKey, sequence) AS (
    SELECT eventKey, previousKey, sequence FROM RunEvents
    WHERE runKey = +:runKey AND eventKey = coalesce(
      (
        SELECT eventKey FROM RunEvents
        WHERE runKey = +:runKey AND sequence >= +:last AND sequence & 31 = 0 ORDER BY sequence LIMIT 1
      ),
      (SELECT lastEventKey FROM RunRecords WHERE recordKey = +:runKey << 8)
    )
    UNION ALL
    SELECT e.eventKey, e.previousKey, e.sequence
    FROM page AS p
    CROSS JOIN RunEvents AS e ON e.eventKey = p.previousKey
    WHERE e.runKey = +:runKey AND e.sequence = p.sequence - 1 AND p.sequence > +:first
  )
  SELECT e.sequence, e.previousKey, e.type, e.actorType, e.actorId, e.stepNumber, e.attemptEpoch, e.payload,
    e.createdAtMs
  FROM page AS p
  CROSS JOIN RunEvents AS e ON e.eventKey = p.eventKey
  WHERE p.sequence BETWEEN +:first AND +:last
  ORDER BY p.sequence`;
const countSql = `WITH RECURSIVE
  history (previousKey, sequence, type) AS (
    SELECT previousKey, sequence, type FROM RunEvents
    WHERE runKey = +:runKey AND eventKey = (SELECT lastEventKey FROM RunRecords WHERE recordKey = +:runKey << 8)
    UNION ALL
    SELECT e.previousKey, e.sequence, e.type
    FROM history AS h
    CROSS JOIN RunEvents AS e ON e.eventKey = h.previousKey
    WHERE e.runKey = +:runKey AND e.sequence = h.sequence - 1
  )
  SELECT count(*) AS number FROM history WHERE type IN (SELECT value FROM json_each(:types))`;

type PageValues = { runKey: number; first: number; last: number };

/** Where a history is and what it has to be: `version` is the run's, which counts its events. */
export type History = { readonly runKey: number; readonly plan: Plan; readonly version: number };

/**
 * Reads the events `first` to `last` of a run, as far as it has them. Throws `damaged` where one is missing, or is a
 * row that this program cannot have written.
 */
export function createEventReads(db: DatabaseSync) {
  const selectPage = statement<PageValues, EventRow & { readonly previousKey: number | null }>(db, selectPageSql);
  const count = statement<{ runKey: number; types: string }, { number: number }>(db, countSql);
  return {
    page({ runKey, plan, version }: History, { first, last }: { first: number; last: number }): readonly RunEvent[] {
      assert(first >= 1 && last >= first, 'a page of events is not empty');
      const end = Math.min(last, version);
      const rows = first > end ? [] : selectPage.all({ runKey, first, last: end });
      const missing = rows.findIndex(({ sequence, previousKey }, index) => {
        return sequence !== first + index || (previousKey === null) !== (sequence === 1);
      });
      if (missing >= 0 || rows.length < end - first + 1) {
        const gap = missing >= 0 ? first + missing : first + rows.length;
        throw damaged('RunEvents', `lacks event ${gap} of ${version}`, { runId: plan.runId });
      }
      return rows.map((row) => decodeEvent(row, plan));
    },
    /** How many of a run's events have one of these type codes. */
    count: (runKey: number, codes: readonly number[]): number =>
      count.get({ runKey, types: JSON.stringify(codes) })?.number ?? 0,
  };
}
