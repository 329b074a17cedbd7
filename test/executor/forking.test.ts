// What is left of a command that forks and ends again and again, so that no list of processes has it for long.
import { rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { readProof } from '../../src/executor/evidence.ts';
import { viewSession } from '../../src/executor/session.ts';
import { realClock } from '../../src/runtime/ports.ts';
import { type Stand, testEachShell } from './stand.ts';

const { bootId } = realClock().observe();

/** A program that starts itself anew as long as there is a file `go`, and ends. */
function makeChain(stand: Stand): { readonly program: string; stop(): void } {
  const folder = stand.runDirectory;
  const program = path.join(folder, 'chain');
  const go = path.join(folder, 'go');
  writeFileSync(go, '');
  writeFileSync(program, `#!/bin/sh\n[ -e '${go}' ] && "$0" &\n`, { mode: 0o755 });
  return { program, stop: () => rmSync(go, { force: true }) };
}

for (const [name, before] of [
  ['is found', ''],
  ['that takes no notice of TERM is killed', "trap '' TERM; "],
] as const) {
  testEachShell(`a chain of processes ${name}, and its attempt ends when it is gone`, async (t, stand) => {
    const chain = makeChain(stand);
    try {
      const script = `${before}exec '${chain.program}' >/dev/null 2>&1`;
      const { end, attemptId } = await stand.run({ argv: ['/bin/sh', '-c', script] });
      // TERM may miss a chain for as long as it is waited for: that KILL was needed is told only of one without TERM.
      const forced = before === '' ? {} : { isForced: true };
      t.match(end, { kind: 'exited', exitCode: 0, ...forced, note: /of its processes outlived it/ });
      t.ok(end.kind === 'exited' && end.leftoversCount > 0);
      const evidence = { directory: stand.directoryOf(attemptId), attemptId, bootId, outputBytesMax: 1 };
      for (let looks = 0; looks < 20; looks += 1) {
        t.same(viewSession(readProof(evidence, new Set())!).others, [], 'nobody is left');
      }
    } finally {
      chain.stop();
    }
  });
}
