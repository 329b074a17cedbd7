// A command that waits for the test. Not a test itself.
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import type { Stand } from './stand.ts';

/** It ends as told when the gate is opened. */
export function makeGate(stand: Stand, ending: string): { readonly script: string; open(): void } {
  const gate = path.join(stand.runDirectory, 'gate');
  execFileSync('mkfifo', [gate]);
  // Opening a FIFO waits for the other side, on both sides.
  return {
    script: `echo before; read x <'${gate}'; echo "after $x"; ${ending}`,
    open: () => writeFileSync(gate, 'go\n'),
  };
}
