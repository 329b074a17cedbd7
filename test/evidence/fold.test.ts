// The second fold, on its own and against the first.
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import t from 'tap';
import { arrangeRows, compareRecords, FoldError, type FoldedHistory, foldHistory } from '../../edge-evidence/fold.ts';
import { canonicalText } from '../../edge-evidence/fold-form.ts';
import { canonicalJson } from '../../src/core/canonical-json.ts';
import { draft, type EventDraft, type RunEvent, stampEvents } from '../../src/core/events.ts';
import { foldEvents } from '../../src/core/evolve.ts';
import { type Alteration, contents, places, reorder } from '../core/alterations.ts';
import { choices, shapesUpTo } from '../core/arbitraries.ts';
import { endDraft, tellStory } from '../core/run-driver.ts';
import { admitStory, append, attemptHead, planOf, type Story, stepOf } from '../core/samples.ts';

type Folded = { readonly records: FoldedHistory } | { readonly refusal: string };

function first(events: readonly RunEvent[]): Folded {
  try {
    return { records: arrangeRows(foldEvents(null, events)!) };
  } catch (error) {
    if (error instanceof Error && error.name === 'InvariantError') {
      return { refusal: error.message };
    }
    throw error;
  }
}

function second(events: readonly RunEvent[]): Folded {
  try {
    return { records: foldHistory(events) };
  } catch (error) {
    if (error instanceof FoldError) {
      return { refusal: error.message };
    }
    throw error;
  }
}

const isRefused = (folded: Folded) => 'refusal' in folded;

t.test('the second fold shares nothing with the first but types', async (t) => {
  for (const file of ['fold.ts', 'fold-form.ts', 'fold-tables.ts']) {
    const source = readFileSync(new URL(`../../edge-evidence/${file}`, import.meta.url), 'utf8');
    for (const [, statement, from] of source.matchAll(/^(import [^;]*?) from '([^']+)';/gms)) {
      t.ok(
        from!.startsWith('node:') || from!.startsWith('./fold-') || statement!.startsWith('import type '),
        `${from}`,
      );
    }
  }
});

t.test('every random legal history folds to the same records twice', async () => {
  fc.assert(
    fc.property(shapesUpTo(10), choices, (shape, actions) => {
      const { events } = tellStory(planOf(shape), actions);
      const folded = first(events);
      const differences = 'records' in folded ? compareRecords(folded.records, foldHistory(events)) : [folded.refusal];
      if (differences.length > 0) {
        throw new RangeError(differences.join(', '));
      }
    }),
    { numRuns: 400 },
  );
});

t.test('every beginning of a legal history folds to the same records twice', async () => {
  fc.assert(
    fc.property(shapesUpTo(5), choices, (shape, actions) => {
      const { events } = tellStory(planOf(shape), actions);
      return events.every((_, index) => {
        const folded = first(events.slice(0, index + 1));
        return (
          'records' in folded && compareRecords(folded.records, foldHistory(events.slice(0, index + 1))).length === 0
        );
      });
    }),
    { numRuns: 20 },
  );
});

function alterRandomly(check: (original: readonly RunEvent[], altered: readonly RunEvent[]) => string | null) {
  return (alteration: Alteration) => {
    const property = fc.property(
      shapesUpTo(5),
      choices,
      fc.nat(),
      fc.nat({ max: 20 }),
      (shape, actions, place, pick) => {
        const { events } = tellStory(planOf(shape), actions);
        const altered = alteration(events, place % events.length, pick);
        // Some alterations change nothing: a type for itself, a time that was none.
        if (altered === null || canonicalJson(altered) === canonicalJson(events)) {
          return;
        }
        const fault = check(events, altered);
        if (fault !== null) {
          throw new RangeError(fault);
        }
      },
    );
    fc.assert(property, { numRuns: 60 });
  };
}

const bothRefuse = alterRandomly((_, altered) => {
  const accepted = [first(altered), second(altered)].findIndex((folded) => !isRefused(folded));
  return accepted < 0 ? null : `fold ${accepted + 1} accepts it`;
});

for (const [name, alteration] of Object.entries(places)) {
  t.test(`a history in which ${name} is refused by both folds`, async () => {
    bothRefuse(alteration);
  });
}

/** The second is the stricter; what both accept is another history, which the chain shows, and folds alike. */
const neverDisagree = alterRandomly((original, altered) => {
  const [one, two] = [first(altered), second(altered)];
  if ('refusal' in two) {
    return null;
  }
  if ('refusal' in one) {
    return `the first fold alone refuses it: ${one.refusal}`;
  }
  const differences = compareRecords(one.records, two.records);
  if (differences.length > 0) {
    return `they differ in ${differences.join(', ')}`;
  }
  return two.records.run.historyDigest === foldHistory(original).run.historyDigest
    ? 'the chain does not show it'
    : null;
});

for (const [name, alteration] of Object.entries(contents)) {
  t.test(`a history in which ${name} is refused by the second fold if by the first, or folds alike`, async () => {
    neverDisagree(alteration);
  });
}

for (const name of [
  'an event speaks of another attempt',
  'an event speaks of no step',
  'an event speaks of no attempt',
]) {
  t.test(`a history in which ${name} is refused by both folds`, async () => {
    bothRefuse(contents[name]!);
  });
}

t.test('an attempt of another epoch is refused by both folds', async () => {
  bothRefuse(contents['an attempt was of another epoch']!);
});

const shape = { a: [], b: ['a'] };

/** The events of a story and drafts behind them, which `evolve` never saw. */
function withMore(story: Story, ...drafts: readonly EventDraft[]): readonly RunEvent[] {
  return [...story.events, ...stampEvents(story.rows.run, drafts, story.wallMs)];
}

function started(): { story: Story; head: { stepRunId: string; attemptId: string } } {
  const story = admitStory(planOf(shape));
  const step = stepOf(story, 'a');
  const head = attemptHead(step);
  const claim = { number: 1, stepRunVersion: 1, executorType: 'process' as const, executionDigest: 'e'.repeat(64) };
  append(story, draft('attempt.claimed', claim, head), draft('attempt.started', { deadline: null, bootId: 'b' }, head));
  return { story, head };
}

function refusalOf(events: readonly RunEvent[]): string {
  const folded = second(events);
  return 'refusal' in folded ? folded.refusal : 'it was accepted';
}

t.test('an event whose id is not derived from its run, number and type is refused', async (t) => {
  const { events } = admitStory(planOf(shape));
  for (const [index, event] of events.entries()) {
    const other = { ...event, id: `ev_${'0'.repeat(32)}` };
    t.match(refusalOf(events.with(index, other)), /its id is not derived/);
  }
});

t.test('an event of a wrong form is refused, and the field named', async (t) => {
  const { events } = admitStory(planOf(shape));
  const [admitted, created] = events as [RunEvent, RunEvent];
  const at = (index: number, change: object) =>
    refusalOf(events.with(index, { ...events[index]!, ...change } as RunEvent));
  t.match(at(1, { extra: 1 }), /its extra is missing, unknown or malformed/);
  t.match(at(1, { actorType: 'nobody' }), /its actorType/);
  t.match(at(1, { createdAtMs: 1.5 }), /its createdAtMs/);
  t.match(at(1, { stepRunId: undefined }), /its stepRunId/);
  t.match(at(1, { type: 'step.invented' }), /type step\.invented is unknown/);
  t.match(at(1, { type: 'toString' }), /type toString is unknown/);
  for (const key of Object.keys(created.payload)) {
    t.match(at(1, { payload: { ...created.payload, [key]: undefined } }), new RegExp(`its payload\\.${key} `));
  }
  for (const key of Object.keys(admitted.payload)) {
    t.match(at(0, { payload: { ...admitted.payload, [key]: 1.5 } }), new RegExp(`its payload\\.${key} `));
  }
  t.match(at(0, { payload: { ...admitted.payload, requestedBy: 'x'.repeat(17_000) } }), /more than 16 KiB/);
});

t.test('nothing folds to a run but a history that begins with an admission', async (t) => {
  t.match(refusalOf([]), /there is no event/);
  const { events } = admitStory(planOf(shape));
  t.match(refusalOf(reorder(events.slice(1))), /begins with workflow\.admitted/);
  t.match(refusalOf(reorder([events[0]!, events[0]!])), /admitted once/);
});

t.test('steps are created by the admission alone, once each, in the order of their keys', async (t) => {
  const story = admitStory(planOf(shape));
  const [admitted, a, b] = story.events as [RunEvent, RunEvent, RunEvent];
  t.match(refusalOf(reorder([admitted, a, a])), /once each, in the order of their keys/);
  t.match(refusalOf(reorder([admitted, b, a])), /once each, in the order of their keys/);
  const intent = draft('workflow.cancel_requested', { reason: 'user' });
  append(story, intent);
  t.match(refusalOf(reorder([...story.events, b])), /created by the admission alone/);
  t.match(refusalOf([admitted, { ...a, stepRunId: b.stepRunId }]), /the id of this step is/);
});

t.test('nothing is claimed, started, readied or skipped after a cancel intent', async (t) => {
  const intent = draft('workflow.cancel_requested', { reason: 'user' });
  const fresh = admitStory(planOf(shape));
  const step = stepOf(fresh, 'a');
  const onB = { stepRunId: stepOf(fresh, 'b').id };
  const claim = { number: 1, stepRunVersion: 1, executorType: 'process' as const, executionDigest: 'e'.repeat(64) };
  const claimed = draft('attempt.claimed', claim, attemptHead(step));
  const begun = draft('attempt.started', { deadline: null, bootId: 'b' }, attemptHead(step));
  t.match(refusalOf(withMore(fresh, intent, claimed)), /nothing is claimed after a cancel intent/);
  t.match(refusalOf(withMore(fresh, claimed, intent, begun)), /nothing starts after a cancel intent/);
  t.match(refusalOf(withMore(fresh, intent, draft('step.readied', { due: null }, onB))), /nothing becomes ready/);
  const skipped = draft('step.skipped', { resultCode: 'x', errorSummary: null }, onB);
  t.match(refusalOf(withMore(fresh, intent, skipped)), /a cancel intent freezes the frontier/);
  t.match(refusalOf(withMore(fresh, intent, intent)), /the first cancel intent wins/);
});

t.test('a durable stop decides over exit code 0', async (t) => {
  const { story, head } = started();
  const attempt = [...story.rows.attempts.values()][0]!;
  const success = endDraft(attempt, 'succeeded', { exitCode: 0 });
  t.notOk(isRefused(second(withMore(story, success))));
  const stops = [
    draft('workflow.task_timeout_requested', {}, head),
    draft('workflow.cancel_requested', { reason: 'user' as const }),
  ];
  for (const stop of stops) {
    t.match(refusalOf(withMore(story, stop, success)), /a durable stop decides/);
  }
  const [timeout] = stops;
  t.match(refusalOf(withMore(story, timeout!, timeout!)), /is stopped already: timeout/);
});

t.test('attempt and step end together, in ends that go together', async (t) => {
  const { story, head } = started();
  const attempt = [...story.rows.attempts.values()][0]!;
  const alone = draft('step.cancelled', { resultCode: 'x', errorSummary: null }, { stepRunId: head.stepRunId });
  t.match(refusalOf(withMore(story, alone)), /has an open attempt/);
  const wrong = endDraft(attempt, 'failed', { stepStatus: 'succeeded' });
  t.match(refusalOf(withMore(story, wrong)), /an attempt failed does not leave its step succeeded/);
  const uncoded = endDraft(attempt, 'failed', { stepStatus: 'failed' });
  t.match(refusalOf(withMore(story, uncoded)), /a result code of null for failed/);
  const due = { startMs: 1, startUptimeMs: 1, bootId: 'b', lengthMs: 1 };
  t.match(refusalOf(withMore(story, endDraft(attempt, 'succeeded', { stepDue: due }))), /only a ready step is due/);
});

t.test('a run ends after its steps, and as they make it', async (t) => {
  const end = (type: 'workflow.succeeded' | 'workflow.failed' | 'workflow.cancelled', errorCode: string | null) =>
    draft(type, { errorCode, errorSummary: null });
  const { story } = started();
  t.match(refusalOf(withMore(story, end('workflow.failed', 'workflow_step_failed'))), /a run ends after its steps/);
  const attempt = [...story.rows.attempts.values()][0]!;
  append(story, endDraft(attempt, 'failed', { stepStatus: 'failed', stepResultCode: 'x' }));
  const skipped = draft('step.skipped', { resultCode: 'x', errorSummary: null }, { stepRunId: stepOf(story, 'b').id });
  append(story, skipped);
  t.match(refusalOf(withMore(story, end('workflow.succeeded', null))), /the steps make it failed/);
  t.match(refusalOf(withMore(story, end('workflow.failed', null))), /the error code of failed is workflow_step_failed/);
  t.notOk(isRefused(second(withMore(story, end('workflow.failed', 'workflow_step_failed')))));
});

t.test('attempts are numbered over the whole run without a gap', async (t) => {
  const story = admitStory(planOf(shape));
  const claim = { number: 2, stepRunVersion: 1, executorType: 'process' as const, executionDigest: 'e'.repeat(64) };
  const events = withMore(story, draft('attempt.claimed', claim, attemptHead(stepOf(story, 'a'))));
  t.match(refusalOf(events), /this is attempt 1 of the run/);
});

t.test('a run has at most eight news, after its end', async (t) => {
  const story = tellStory(planOf({ a: [] }), Array(20).fill({ action: 0, clockMs: 0 }));
  t.not(story.rows.run.status, 'running');
  t.equal(story.events.filter(({ type }) => type === 'workflow.leftover_found').length, 8);
  const more = draft('workflow.leftover_found', { summary: 'one more' });
  t.match(refusalOf(withMore(story, more)), /at most 8 news/);
  t.match(refusalOf(withMore(admitStory(planOf(shape)), more)), /news come after the end/);
});

t.test('differences are named by path, each field that differs and no other', async (t) => {
  const { story } = started();
  const a = foldHistory(story.events);
  t.same(compareRecords(a, foldHistory(story.events)), []);
  const b: FoldedHistory = {
    run: { ...a.run, status: 'failed', deadline: { ...a.run.deadline!, lengthMs: 1 } },
    steps: [{ ...a.steps[0]!, due: { startMs: 1, startUptimeMs: 1, bootId: 'b', lengthMs: 1 } }],
    attempts: [
      { ...a.attempts[0]!, exitCode: 0 },
      { ...a.attempts[0]!, number: 2 },
    ],
  };
  t.same(compareRecords(a, b), [
    ...['attempts.1.exitCode', 'attempts.2', 'run.deadline.lengthMs', 'run.status', 'steps.a.due', 'steps.b'],
  ]);
  t.same(compareRecords(b, a), compareRecords(a, b));
});

t.test('the events and their payloads are left as they were', async (t) => {
  const story = tellStory(planOf(shape), Array(30).fill({ action: 3, clockMs: 1 }));
  const before = canonicalJson(story.events);
  foldHistory(
    story.events.map((event) => Object.freeze({ ...event, payload: Object.freeze({ ...event.payload }) }) as RunEvent),
  );
  t.equal(canonicalJson(story.events), before);
});

t.test('both canonical forms are the same text, for any value of the subset', async () => {
  const json = fc.letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 4 },
      fc.constantFrom(null, true, false),
      fc.maxSafeInteger(),
      fc.string({ unit: 'binary' }),
      fc.array(tie('value'), { maxLength: 5 }),
      fc.dictionary(fc.string({ unit: 'binary' }), tie('value'), { maxKeys: 5, noNullPrototype: true }),
    ),
  })).value;
  fc.assert(fc.property(json, (value) => canonicalText(value) === canonicalJson(value)));
});
