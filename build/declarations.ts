// The declarations that embedders compile against: what is reachable from the library's entry points, and no more.
import path from 'node:path';
import ts from 'typescript';
import { EdgeError } from '../src/core/errors.ts';

/**
 * File names below dist/ with their text, sorted. Whether the types are right is for `npm run check` to say; throws
 * `invalid` with the compiler's words where one cannot be declared.
 */
export function emitDeclarations(root: string, sources: readonly string[]): [name: string, text: string][] {
  const config = ts.readConfigFile(path.join(root, 'tsconfig.json'), ts.sys.readFile);
  const { options } = ts.parseJsonConfigFileContent(config.config, ts.sys, root);
  const program = ts.createProgram({
    rootNames: sources.map((source) => path.join(root, source)),
    options: {
      ...options,
      noEmit: false,
      declaration: true,
      emitDeclarationOnly: true,
      stripInternal: true,
      newLine: ts.NewLineKind.LineFeed,
      rootDir: path.join(root, 'src'),
      outDir: path.join(root, 'dist/types'),
    },
  });
  const files = new Map<string, string>();
  const { diagnostics } = program.emit(undefined, (file, text) => {
    files.set(path.relative(path.join(root, 'dist'), file).replaceAll(path.sep, '/'), text);
  });
  if (diagnostics.length > 0) {
    const host = {
      getCanonicalFileName: (name: string) => name,
      getCurrentDirectory: () => root,
      getNewLine: () => '\n',
    };
    throw new EdgeError('invalid', `the declarations cannot be made:\n${ts.formatDiagnostics(diagnostics, host)}`, {
      hint: 'see npm run check',
    });
  }
  return [...files].sort(([a], [b]) => (a < b ? -1 : 1));
}
