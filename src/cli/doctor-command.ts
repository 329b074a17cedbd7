// `doctor`: what this machine and this data directory are like, one line a fact, with what to do where something is
// wrong. Looks only, but for one scratch file that is written, synced and removed.

import type { CheckState } from './check.ts';
import { formatTable } from './columns.ts';
import type { Context } from './command.ts';
import { checkLauncher } from './doctor-attempts.ts';
import { checkData } from './doctor-data.ts';
import { checkMachine } from './doctor-machine.ts';
import { checkSettings } from './doctor-settings.ts';
import { exitCodes } from './failure.ts';
import type { Tone } from './terminal.ts';

const tones: Readonly<Record<CheckState, Tone>> = { ok: 'green', warning: 'yellow', bad: 'red', unknown: 'yellow' };
const unavailable = 4;

export async function doctorCommand(context: Context): Promise<number> {
  const { output } = context;
  const checks = [
    ...checkMachine(context),
    await checkSettings(context),
    ...(await checkLauncher(context)),
    ...(await checkData(context)),
  ];
  if (output.isJson) {
    const documents = checks.map(({ name, state, text, facts }) => ({ name, state, text, facts }));
    output.printJson({ schema: 'qinglong/doctor-report@v1', checks: documents });
  } else {
    const rows = checks.map(({ name, state, text }) => [name, { text: state, tone: tones[state] }, text]);
    output.print(...formatTable(['CHECK', 'STATE', 'WHAT'], rows, output.paint));
  }
  const bad = checks.filter(({ state }) => state === 'bad').map(({ exitCode = unavailable }) => exitCode);
  // Damage is the worse news.
  return bad.length === 0 ? exitCodes.done : Math.max(...bad);
}
