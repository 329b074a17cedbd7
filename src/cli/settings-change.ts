// `settings set` and `settings unset`: what this device gives to the commands of a package. A value is never printed,
// not even one that is refused.
import { EdgeError } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { environmentEntryRule } from '../core/manifest-rules.ts';
import { inputName, readBounded } from './bounded-input.ts';
import type { Context, Input } from './command.ts';
import { exitCodes, refusal } from './failure.ts';
import { withVerbs } from './session.ts';

export async function setCommand(context: Context, input: Input): Promise<number> {
  const [packageName, name, given] = input.arguments as readonly [string, string, string];
  const value = given === '-' ? await readValue() : given;
  const broken = environmentEntryRule({ name, value });
  if (broken !== null) {
    throw new EdgeError('invalid', `VALUE ${broken}`, { hint: 'give another value' });
  }
  // A file that was not there, or a program that failed, comes in as nothing.
  if (given === '-' && value === '' && !context.output.isJson) {
    context.output.note('standard input is empty: so is the value');
  }
  return await changeSetting(context, { packageName, name, value });
}

export async function unsetCommand(context: Context, input: Input): Promise<number> {
  const [packageName, name] = input.arguments as readonly [string, string];
  return await changeSetting(context, { packageName, name, value: null });
}

type Change = { readonly packageName: string; readonly name: string; readonly value: string | null };

async function changeSetting(context: Context, change: Change): Promise<number> {
  const { output, self } = context;
  const { packageName, name, value } = change;
  const word = value === null ? 'unset' : 'set';
  return await withVerbs(context, { command: `settings ${word}`, mayCreate: false }, async ({ verbs }) => {
    const outcome = await verbs.changeSetting(change);
    if (outcome.kind === 'not-found') {
      return output.fail(refusal(outcome.kind, outcome.reason, `see \`${self} package list\``));
    }
    if (outcome.kind === 'not-allowed') {
      return output.fail(refusal(outcome.kind, outcome.reason, `see \`${self} settings list ${packageName}\``));
    }
    const { kind, isAsked, nearestName } = outcome;
    if (output.isJson) {
      output.printJson({ outcome: kind, packageName, name, isSet: value !== null, isAsked, nearestName });
      return exitCodes.done;
    }
    if (!isAsked && value !== null) {
      const meant = nearestName === null ? '' : `; did you mean ${nearestName}?`;
      output.note(`no task of ${packageName} asks for ${name}${meant}`);
    }
    const already = value === null ? 'is not set' : 'has this value already';
    output.print(kind === 'unchanged' ? `${name} of ${packageName} ${already}` : `${word} ${name} of ${packageName}`);
    return exitCodes.done;
  });
}

/** From standard input, so that it is in no list of processes and no history of a shell. */
async function readValue(): Promise<string> {
  const hint = 'give the value on standard input';
  const tooLongHint = 'an environment holds no longer value';
  // Its one final newline, which a shell or an editor adds, is not part of it.
  const bytes = await readBounded({ file: '-', bytesMax: limits.argumentBytesMax + 1, hint, tooLongHint });
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes).replace(/\n$/, '');
  } catch (cause) {
    throw new EdgeError('invalid', `${inputName('-')} is no UTF-8`, { cause, hint: 'a value is text' });
  }
}
