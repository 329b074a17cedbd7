// `settings list`: what a package asks of this device, what is set, and what is missing. Values only when asked for.
import { read } from '../protocol/reads.ts';
import { inspectSettings, type SettingInspection, type SettingState } from '../runtime/package-setting.ts';
import { localProjectId } from '../runtime/settings.ts';
import { type Cell, formatTable } from './columns.ts';
import type { Context, Input } from './command.ts';
import { exitCodes, refusal } from './failure.ts';
import { withReader } from './session.ts';
import type { Tone } from './terminal.ts';
import { formatTime } from './times.ts';

export async function listCommand(context: Context, input: Input): Promise<number> {
  const { output, self } = context;
  const packageName = input.arguments[0]!;
  const hasValues = input.options.values ?? false;
  const place = { projectId: localProjectId, packageName };
  const settings = await withReader(context, async (reads) => {
    const head = await reads.read(read('package', place));
    return head === null ? null : inspectSettings(head, await reads.read(read('settings', place)));
  });
  if (settings === null) {
    const hint = `see \`${self} package list\``;
    return output.fail(refusal('not-found', `package ${packageName} is not installed`, hint));
  }
  if (output.isJson) {
    output.printJson({ packageName, settings: settings.map((setting) => settingDocument(setting, hasValues)) });
  } else if (settings.length === 0) {
    output.note(`${packageName} asks for no settings, and none are set`);
  } else {
    const heading = ['SETTING', 'STATE', 'CHANGED', 'VARIABLES', ...(hasValues ? ['VALUE'] : [])];
    const rows = settings.map((setting) => settingRow(setting, hasValues));
    output.print(...formatTable(heading, rows, output.paint));
  }
  return exitCodes.done;
}

function settingDocument({ value, ...setting }: SettingInspection, hasValues: boolean): object {
  return hasValues ? { ...setting, value } : setting;
}

const tones: Readonly<Record<SettingState, Tone | null>> = {
  set: 'green',
  default: null,
  missing: 'red',
  unused: 'yellow',
};

function settingRow(setting: SettingInspection, hasValues: boolean): readonly Cell[] {
  const { name, state, uses, updatedAtMs } = setting;
  return [
    name,
    { text: state, tone: tones[state] },
    updatedAtMs === null ? '' : formatTime(updatedAtMs),
    uses.map(({ taskId, variable }) => `${taskId}.${variable}`).join(', '),
    ...(hasValues ? [shownValue(setting)] : []),
  ];
}

/** What a command gets: the value that is set, else what the package gives by default, which differs between uses. */
function shownValue({ value, uses }: SettingInspection): string {
  return value === null
    ? [...new Set(uses.flatMap((use) => use.default ?? []))].map(quoteUnlessPlain).join(', ')
    : quoteUnlessPlain(value);
}

/** As JSON has it where it would not be seen as it is: empty, with blanks around it, or with control characters. */
function quoteUnlessPlain(value: string): string {
  return /^(?![\s"])[^\p{C}]*(?<!\s)$/u.test(value) && value !== '' ? value : JSON.stringify(value);
}
