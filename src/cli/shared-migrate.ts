// `migrate`: the schema of a shared database, made or brought up to date.
import type { Context } from './command.ts';
import { exitCodes } from './failure.ts';
import { placeOf } from './shared-place.ts';

export async function migrateCommand(context: Context): Promise<number> {
  const { output } = context;
  const place = placeOf(context);
  const applied = await place.migrate();
  if (output.isJson) {
    output.printJson({ applied });
  } else {
    output.print(applied.length === 0 ? `${place.name} is up to date` : `applied: ${applied.join(', ')}`);
  }
  return exitCodes.done;
}
