// Style rules that look at the syntax tree of one file.
import ts from 'typescript';
import { isEntry } from './style-imports.ts';
import { type FileCheck, findingAt, findNodes, lineOf } from './style-rule.ts';
import { findBannedWord } from './style-text.ts';

export const functionLinesMax = 70;

export const checkFunctionLength: FileCheck = (file) =>
  findNodes(file, (node) => {
    if (!ts.isFunctionLike(node) || !('body' in node) || node.body === undefined) {
      return null;
    }
    const lines = lineOf(node, node.end) - lineOf(node, node.getStart()) + 1;
    return lines > functionLinesMax ? `a function of ${lines} lines, at most ${functionLinesMax}` : null;
  });

/** Errors are EdgeError, with a code and a hint, or a broken invariant. */
export const checkThrownErrors: FileCheck = (file) =>
  findNodes(file, (node) => {
    const isPlain =
      ts.isThrowStatement(node) &&
      (ts.isNewExpression(node.expression) || ts.isCallExpression(node.expression)) &&
      node.expression.expression.getText() === 'Error';
    return isPlain ? 'throws a plain Error' : null;
  });

const portNames = new Set(['randomUUID', 'setTimeout', 'setInterval']);
const portMembers = new Set([
  'Date.now',
  'Math.random',
  'process.env',
  'process.hrtime',
  'performance.now',
  'globalThis.process',
]);

/** Time, randomness and the environment come in through one file, whose ports have simulated twins. */
export const checkPorts: FileCheck = (file) =>
  findNodes(file, (node) => {
    if (file.path === 'src/runtime/ports.ts') {
      return null;
    }
    if (ts.isPropertyAccessExpression(node) && portMembers.has(node.getText())) {
      return node.getText();
    }
    if (ts.isNewExpression(node) && node.expression.getText() === 'Date' && (node.arguments?.length ?? 0) === 0) {
      return 'new Date()';
    }
    return ts.isIdentifier(node) && portNames.has(node.text) ? node.text : null;
  });

export const checkDefaultExport: FileCheck = (file) =>
  findNodes(file, (node) => {
    const isDefault =
      (ts.isExportAssignment(node) && node.isExportEquals !== true) ||
      (ts.canHaveModifiers(node) &&
        ts.getModifiers(node)?.some(({ kind }) => kind === ts.SyntaxKind.DefaultKeyword) === true) ||
      (ts.isExportSpecifier(node) && node.name.text === 'default');
    return isDefault ? 'a default export' : null;
  });

export const checkVocabulary: FileCheck = (file) =>
  findNodes(file, (node) => {
    const word = ts.isIdentifier(node) || ts.isPrivateIdentifier(node) ? findBannedWord(node.text) : null;
    return word === null ? null : `${(node as ts.Identifier).text} says ${word}`;
  });

/** In SQL files the names are all that is not a comment. */
export const checkSqlVocabulary: FileCheck = (file) =>
  file.text.split('\n').flatMap((line, index) => {
    const word = findBannedWord(line.replace(/--.*/, ''));
    return word === null ? [] : [{ path: file.path, line: index + 1, what: `a name says ${word}` }];
  });

/** A file that only hands on what others export hides where things are. */
export const checkBarrel: FileCheck = (file) => {
  const statements = file.tree?.statements ?? [];
  const handsOn = statements.filter(
    (node) =>
      ts.isExportDeclaration(node) &&
      (node.moduleSpecifier !== undefined ||
        (node.exportClause !== undefined &&
          ts.isNamedExports(node.exportClause) &&
          node.exportClause.elements.length > 0)),
  );
  const isBarrel =
    !isEntry(file.path) &&
    handsOn.length > 0 &&
    handsOn.length + statements.filter(ts.isImportDeclaration).length === statements.length;
  return isBarrel ? [findingAt(file, handsOn[0]!, 'only re-exports')] : [];
};

const sqlWords =
  /\b(SELECT|WHERE|VALUES|INSERT\s+(INTO|OR)|REPLACE\s+INTO|UPDATE\s+\w+\s+SET|DELETE\s+FROM|CREATE\s+\w+)\s/;

/** Values are bound, statements are constants. */
export const checkSqlInterpolation: FileCheck = (file) =>
  findNodes(file, (node) => {
    const isTemplate = ts.isTemplateExpression(node) && sqlWords.test(node.getText());
    const isSum =
      ts.isBinaryExpression(node) &&
      node.operatorToken.kind === ts.SyntaxKind.PlusToken &&
      [node.left, node.right].some((side) => ts.isStringLiteralLike(side) && sqlWords.test(side.text)) &&
      ![node.left, node.right].every(ts.isStringLiteralLike);
    return isTemplate || isSum ? 'SQL put together from parts' : null;
  });

/** Core is synchronous: what waits belongs above it. */
export const checkSynchronous: FileCheck = (file) =>
  findNodes(file, (node) => {
    const isAsync =
      ts.isAwaitExpression(node) ||
      (ts.canHaveModifiers(node) &&
        ts.getModifiers(node)?.some(({ kind }) => kind === ts.SyntaxKind.AsyncKeyword) === true);
    return isAsync ? 'asynchronous code' : null;
  });
