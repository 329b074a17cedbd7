// `workflow admit FILE`: a plan becomes a run, or gives back the receipt of the run that it became before.
import { EdgeError, isEdgeError } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { normalizePlan, type Plan } from '../core/plan.ts';
import { parseJsonText } from '../runtime/json-text.ts';
import { findLine, type ParsedText } from '../runtime/parsed-text.ts';
import { inputName, readBounded } from './bounded-input.ts';
import type { Context, Input } from './command.ts';
import { exitCodes } from './failure.ts';
import { operatorName } from './operator.ts';
import { withVerbs } from './session.ts';
import { readStart, startDocument } from './start-text.ts';

/** Prints JSON with and without `--json`: a receipt is for programs. */
export async function admitCommand(context: Context, input: Input): Promise<number> {
  const { output, self } = context;
  const plan = await readPlan(input.arguments[0]!);
  return await withVerbs(context, { command: 'workflow admit', mayCreate: false }, async ({ verbs }) => {
    const outcome = await verbs.admit({ plan, requestedBy: operatorName() });
    const started = readStart(outcome, { self, packageName: plan.target.packageName, isOfPlan: true });
    if (started.kind === 'refused') {
      return output.fail(started.failure);
    }
    output.printJson(startDocument(outcome));
    return exitCodes.done;
  });
}

/** Throws `invalid` with every mistake, each with its line. */
async function readPlan(file: string): Promise<Plan> {
  const name = inputName(file);
  const bytes = await readBounded({
    file,
    bytesMax: planFileBytesMax,
    hint: 'name a file with a plan, or -',
    tooLongHint: 'a plan is smaller',
  });
  const parsed = parseJsonText(new TextDecoder().decode(bytes));
  if (parsed.mistakes.length > 0) {
    throw new EdgeError('invalid', `${name} has ${countMistakes(parsed)}`, {
      hint: 'give a plan as `workflow plan` prints it',
      mistakes: parsed.mistakes.map((mistake) => ({ file: name, ...mistake })),
    });
  }
  try {
    return normalizePlan(parsed.value);
  } catch (error) {
    throw placeMistakes(error, name, parsed);
  }
}

function placeMistakes(error: unknown, file: string, { lines }: ParsedText): unknown {
  if (!isEdgeError(error)) {
    return error;
  }
  const mistakes = error.mistakes.map((mistake) => ({ ...mistake, file, line: findLine(lines, mistake.path) }));
  return new EdgeError(error.code, `the plan in ${file} has ${countMistakes(error)}`, {
    hint: error.hint,
    mistakes,
    cause: error,
  });
}

function countMistakes({ mistakes }: { readonly mistakes: readonly unknown[] }): string {
  return mistakes.length === 1 ? 'one mistake' : `${mistakes.length} mistakes`;
}

// A plan file may be indented; beyond four times the bound of a plan it is certainly none.
const planFileBytesMax = 4 * limits.planBytesMax;
