// `version` and `--version`.
import { buildInfo } from '../runtime/build-info.generated.ts';
import type { Context } from './command.ts';
import { exitCodes } from './failure.ts';

export async function versionCommand({ output }: Pick<Context, 'output'>): Promise<number> {
  const { version, buildDateMs } = buildInfo;
  const buildDate = new Date(buildDateMs).toISOString().slice(0, 'yyyy-mm-dd'.length);
  const { node, sqlite = 'unknown' } = process.versions;
  if (output.isJson) {
    output.printJson({ version, buildDate, node, sqlite });
  } else {
    output.print(`qinglong-edge ${version} (${buildDate}), Node.js ${node}, SQLite ${sqlite}`);
  }
  return exitCodes.done;
}
