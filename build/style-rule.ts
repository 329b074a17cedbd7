// The shape of a style rule, and what rules share: parsed files, walking a tree, module specifiers.
import path from 'node:path';
import ts from 'typescript';

export type StyleFile = {
  readonly path: string;
  readonly text: string;
  /** Null for what is not TypeScript. */
  readonly tree: ts.SourceFile | null;
};

export type Finding = { readonly path: string; readonly line: number; readonly what: string };

/** Looks at one file alone. */
export type FileCheck = (file: StyleFile) => Finding[];

export function parseFile(file: string, text: string): StyleFile {
  const tree = file.endsWith('.ts') ? ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true) : null;
  return { path: file, text, tree };
}

export function findingAt(file: StyleFile, node: ts.Node, what: string): Finding {
  return { path: file.path, line: lineOf(node, node.getStart()), what };
}

/** Lines are counted from 1. */
export function lineOf(node: ts.Node, position: number): number {
  return node.getSourceFile().getLineAndCharacterOfPosition(position).line + 1;
}

/** One finding for each node that `judge` has something to say about; null is silence. */
export function findNodes(file: StyleFile, judge: (node: ts.Node) => string | null): Finding[] {
  const findings: Finding[] = [];
  const visit = (node: ts.Node) => {
    const what = judge(node);
    if (what !== null) {
      findings.push(findingAt(file, node, what));
    }
    ts.forEachChild(node, visit);
  };
  if (file.tree !== null) {
    visit(file.tree);
  }
  return findings;
}

export type Import = {
  /** The project's path of a relative import; the bare specifier otherwise. */
  readonly target: string;
  readonly isRelative: boolean;
  readonly line: number;
};

/** Every module that a file names: imports, re-exports, `import()`, and `import()` in types. */
export function listImports(file: StyleFile): Import[] {
  const imports: Import[] = [];
  const visit = (node: ts.Node) => {
    const specifier = specifierOf(node);
    if (specifier !== null) {
      const isRelative = specifier.text.startsWith('.');
      const target = isRelative ? path.posix.join(path.posix.dirname(file.path), specifier.text) : specifier.text;
      imports.push({ target, isRelative, line: lineOf(node, node.getStart()) });
    }
    ts.forEachChild(node, visit);
  };
  if (file.tree !== null) {
    visit(file.tree);
  }
  return imports;
}

function specifierOf(node: ts.Node): ts.StringLiteralLike | null {
  const candidates = [
    ts.isImportDeclaration(node) || ts.isExportDeclaration(node) ? node.moduleSpecifier : undefined,
    ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword ? node.arguments[0] : undefined,
    ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument) ? node.argument.literal : undefined,
  ];
  return candidates.find((candidate) => candidate !== undefined && ts.isStringLiteralLike(candidate)) ?? null;
}
