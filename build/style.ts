// The style of the code as a test. One table says each rule, where it holds and what it means; there are no exemptions.
import { listFiles, projectRoot, readText, sourceFolders } from './project.ts';
import {
  checkAdapters,
  checkCorePlatform,
  checkCycles,
  checkEvidenceImports,
  checkLayers,
  checkPackages,
} from './style-imports.ts';
import { type FileCheck, type Finding, parseFile, type StyleFile } from './style-rule.ts';
import {
  checkBarrel,
  checkDefaultExport,
  checkFunctionLength,
  checkPorts,
  checkSqlInterpolation,
  checkSqlVocabulary,
  checkSynchronous,
  checkThrownErrors,
  checkVocabulary,
} from './style-syntax.ts';
import {
  checkFileLength,
  checkFileName,
  checkKebabCase,
  checkOpenEnds,
  checkSuppressions,
  checkWidth,
} from './style-text.ts';

export type StyleFinding = Finding & { readonly rule: string };

/** Holds for the files below `folders` that have one of the `endings`. */
type Rule = {
  readonly folders: readonly string[];
  readonly endings: readonly string[];
  readonly check: (files: readonly StyleFile[]) => Finding[];
};

const everywhere = sourceFolders;
const code = ['src', 'build', 'edge-evidence'];
const codeAndTests = [...code, 'test'];
const script = ['.ts'];
const written = ['.ts', '.sql', '.sh', '.mjs', '.cjs', '.js'];

function each(check: FileCheck): Rule['check'] {
  return (files) => files.flatMap(check);
}

export const rules: Readonly<Record<string, Rule>> = {
  // Size.
  'file-length': { folders: everywhere, endings: written, check: each(checkFileLength) },
  'line-width': { folders: everywhere, endings: written, check: each(checkWidth) },
  'function-length': { folders: codeAndTests, endings: script, check: each(checkFunctionLength) },
  // Structure.
  layers: { folders: ['src'], endings: script, check: each(checkLayers) },
  adapters: { folders: ['src'], endings: script, check: each(checkAdapters) },
  packages: { folders: ['src'], endings: script, check: each(checkPackages) },
  'core-platform': { folders: ['src/core'], endings: script, check: each(checkCorePlatform) },
  'core-synchronous': { folders: ['src/core'], endings: script, check: each(checkSynchronous) },
  'evidence-imports': { folders: ['edge-evidence'], endings: script, check: each(checkEvidenceImports) },
  cycles: { folders: codeAndTests, endings: script, check: checkCycles },
  barrels: { folders: code, endings: script, check: each(checkBarrel) },
  'default-exports': { folders: codeAndTests, endings: script, check: each(checkDefaultExport) },
  // Names.
  'kebab-case': { folders: codeAndTests, endings: written, check: each(checkKebabCase) },
  'file-names': { folders: codeAndTests, endings: written, check: each(checkFileName) },
  vocabulary: { folders: codeAndTests, endings: script, check: each(checkVocabulary) },
  'sql-vocabulary': { folders: ['schema'], endings: ['.sql'], check: each(checkSqlVocabulary) },
  // Habits.
  ports: { folders: ['src'], endings: script, check: each(checkPorts) },
  'thrown-errors': { folders: code, endings: script, check: each(checkThrownErrors) },
  'sql-interpolation': { folders: ['src'], endings: script, check: each(checkSqlInterpolation) },
  'open-ends': { folders: everywhere, endings: written, check: each(checkOpenEnds) },
  suppressions: { folders: everywhere, endings: written, check: each(checkSuppressions) },
};

/** Every breach of a rule, rule by rule. */
export function checkStyle(files: readonly StyleFile[]): StyleFinding[] {
  return Object.entries(rules).flatMap(([rule, { folders, endings, check }]) => {
    const concerned = files.filter(
      (file) =>
        folders.some((folder) => file.path.startsWith(`${folder}/`)) &&
        endings.some((ending) => file.path.endsWith(ending)),
    );
    return check(concerned).map((finding) => ({ ...finding, rule }));
  });
}

export function readStyleFiles(root: string): StyleFile[] {
  const files = listFiles(root, sourceFolders).filter((file) => written.some((ending) => file.endsWith(ending)));
  return files.map((file) => parseFile(file, readText(root, file)));
}

export function printFinding({ path, line, rule, what }: StyleFinding): string {
  return `${path}:${line}: ${rule}: ${what}`;
}

if (import.meta.main) {
  const findings = checkStyle(readStyleFiles(projectRoot));
  process.stdout.write(findings.map((finding) => `${printFinding(finding)}\n`).join(''));
  process.exitCode = findings.length === 0 ? 0 : 1;
}
