// What `doctor` says of the settings of a data directory: whether they can be read, and what nobody reads.
import { type EdgeError, isEdgeError } from '../core/errors.ts';
import { didYouMean } from '../core/nearest.ts';
import { settingNames } from '../runtime/settings.ts';
import type { Check } from './check.ts';
import type { Context } from './command.ts';
import { exitCodes, mistakeLine } from './failure.ts';
import { cutInput } from './plain-text.ts';
import { readSettings } from './session.ts';
import type { Reader } from './storage.ts';

/** With every wrong key, wherever it stands: option, environment or config.json. */
export async function checkSettings(context: Context): Promise<Check> {
  const name = 'settings';
  const errors = [await findWrongSettings(context), await findWrongStorage(context)].filter((error) => error !== null);
  const [first] = errors;
  if (first === undefined) {
    return { name, state: 'ok', text: 'can be read', facts: { mistakes: [] } };
  }
  const mistakes = errors.flatMap((error) => error.mistakes);
  const told = mistakes.length === 0 ? first.message : mistakes.map(mistakeLine).join('; ');
  const text = `${told}; ${first.hint}; until then nothing can hold the directory`;
  return { name, state: 'bad', text, facts: { mistakes, code: first.code } };
}

async function findWrongSettings(context: Context): Promise<EdgeError | null> {
  try {
    await readSettings(context);
    return null;
  } catch (error) {
    return asEdgeError(error);
  }
}

/** Of profile and durability, where there is a directory that has them. */
async function findWrongStorage({ storage, data }: Context): Promise<EdgeError | null> {
  try {
    const reader = await storage.openReader({ data });
    reader.close();
    return reader.configError !== null && reader.configError.mistakes.length > 0 ? reader.configError : null;
  } catch {
    // Told where the database is looked at.
    return null;
  }
}

function asEdgeError(error: unknown): EdgeError {
  if (isEdgeError(error)) {
    return error;
  }
  throw error;
}

/** What a person may have mistyped: keys that mean nothing to this program are kept, and do nothing. */
export async function checkConfig(
  { storage, data }: Context,
  { configError }: Pick<Reader, 'configError'>,
): Promise<Check> {
  const name = 'config.json';
  if (configError?.code === 'damaged') {
    const { code, message, hint } = configError;
    const text = `${code}: ${message}; ${hint}; until then nothing can hold the directory`;
    return { name, state: 'bad', text, facts: { code }, exitCode: exitCodes.damaged };
  }
  const known: readonly string[] = ['profile', 'durability', ...settingNames];
  let unknown: readonly string[];
  try {
    const { values = {} } = (await storage.readConfig(data)) ?? {};
    unknown = Object.keys(values).filter((key) => !known.includes(key));
  } catch (error) {
    const { code } = asEdgeError(error);
    return { name, state: 'unknown', text: 'its keys are not known: the row `settings` tells why', facts: { code } };
  }
  if (unknown.length === 0) {
    return { name, state: 'ok', text: 'every key in it is known', facts: { unknown } };
  }
  const told = unknown.map((key) => `${cutInput(key)} is no setting${didYouMean(key, known)}`);
  return { name, state: 'warning', text: told.join('; '), facts: { unknown } };
}
