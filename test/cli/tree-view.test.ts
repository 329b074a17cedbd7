import { PassThrough } from 'node:stream';
import t from 'tap';
import { createAttemptOutputs } from '../../src/cli/attempt-outputs.ts';
import type { Context } from '../../src/cli/command.ts';
import { createOutput, type OutputStream } from '../../src/cli/output.ts';
import { createTreeView } from '../../src/cli/tree-view.ts';
import { draft } from '../../src/core/events.ts';
import { realAlarm, realClock } from '../../src/runtime/ports.ts';
import { append, begin, fail, inspect, storyOf, succeed } from './stories.ts';
import { createTinyTerminal } from './tiny-terminal.ts';

const size = { columns: 60, rows: 12 };

/** A view on a terminal of its own; both streams end there. */
function openView(story: ReturnType<typeof storyOf>, titles: ReadonlyMap<string, string> = new Map()) {
  const terminal = createTinyTerminal(size);
  const stream = Object.assign(new PassThrough(), { isTTY: true, ...size }) as OutputStream;
  // The terminal's own driver makes a line end of each line feed.
  stream.on('data', (bytes: Buffer) => terminal.write(String(bytes).replaceAll(/\r?\n/g, '\r\n')));
  const environment = (name: string) => ({ TERM: 'xterm', LANG: 'C.UTF-8' })[name] ?? null;
  const output = createOutput({ stdout: stream, stderr: stream, environment, isJson: false, exit: () => {} });
  const clock = realClock();
  const context = { output, clock, alarm: realAlarm(clock), self: 'qinglong-edge' } as Context;
  const outputs = createAttemptOutputs({ data: '/nonexistent', runDirectory: () => null });
  const view = createTreeView({ context, evidence: story.evidence, titles, outputs });
  return { terminal, view, output, outputs };
}

t.test('a run that is left keeps its last frame on the screen, and what is said stands below it', async (t) => {
  const story = storyOf({ a: [], b: ['a'] });
  begin(story, 'a');
  const { terminal, view, output } = openView(story);
  view.event(story.events.at(-1)!, story.rows);
  view.note('cancelling');
  view.close();
  output.note('nobody holds the directory now');
  await output.flush();
  const lines = terminal.lines();
  t.match(lines.join('\n'), /^cancelling\nnet-watch\/watch {2}running .*\n└─ ● a .*\n {3}└─ · b .*\nnobody holds/);
  t.ok(terminal.isCursorShown());
});

t.test('the echo of an interrupt behind the last line moves nothing', async (t) => {
  const story = storyOf({ [`a-step-${'of-any-name-'.repeat(4)}x`]: [] });
  const { terminal, view, output } = openView(story);
  view.event(story.events.at(-1)!, story.rows);
  view.note('first');
  await output.flush();
  terminal.write('^C');
  view.note('second');
  view.close();
  await output.flush();
  const lines = terminal.lines();
  t.same([lines.length, lines.slice(0, 2)], [4, ['first', 'second']], lines.join('\n'));
  t.match(lines[3], /^└─ ○ a-step-.*… {2}ready$/);
});

t.test('at its end a run stands there once, whole', async (t) => {
  const story = storyOf({ a: [] });
  begin(story, 'a');
  const { terminal, view, output } = openView(story);
  view.event(story.events.at(-1)!, story.rows);
  view.note('a note');
  succeed(story, 'a');
  append(story, draft('workflow.succeeded', { errorCode: null, errorSummary: null }));
  view.end(inspect(story));
  view.close();
  await output.flush();
  const text = terminal.lines().join('\n');
  t.equal(text.split('└─ ').length, 2, text);
  t.match(text, /^a note\nnet-watch\/watch {2}succeeded .*\n└─ ✓ a .*\n\nsucceeded: net-watch\/watch, 1 step in /);
});

t.test('C024 titles and what commands wrote are text in the tree too, whatever they hold', async (t) => {
  const story = storyOf({ a: [], b: [] });
  const titles = new Map([['b', '<img src=x onerror=alert(1)>\x1b[2J']]);
  begin(story, 'a');
  const { terminal, view, output, outputs } = openView(story, titles);
  view.event(story.events.at(-1)!, story.rows);
  const attemptId = [...story.rows.attempts.keys()][0]!;
  const tail = Buffer.from('first\n\x1b]0;x\x07<script>\u202e\n');
  outputs.collect({ attemptId, tail, totalBytes: 5000 });
  fail(story, 'a');
  view.event(story.events.at(-1)!, story.rows);
  view.note('now');
  await output.flush();
  const live = terminal.lines().join('\n');
  t.match(live, /✗ a .* {2}exit code 3 {2}\\x1b\]0;x\\x07<script…/);
  t.match(live, /○ b .*<img src=x onerror=alert\(1\)>\\x1b…/);
  begin(story, 'b');
  succeed(story, 'b');
  append(story, draft('workflow.failed', { errorCode: null, errorSummary: null }));
  view.end(inspect(story));
  view.close();
  await output.flush();
  t.match(terminal.lines().join('\n'), '  (4.9 KiB before)\n  first\n  \\x1b]0;x\\x07<script>\\u202e');
});
