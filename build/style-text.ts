// Style rules that look at a file's text and name.
import path from 'node:path';
import type { FileCheck, Finding, StyleFile } from './style-rule.ts';

export const fileLinesMax = 400;
export const lineColumnsMax = 120;

// Joined here, so that this file itself holds none of them.
const openEnds = new RegExp(`\\b(${['TO' + 'DO', 'FIX' + 'ME', 'X' + 'XX'].join('|')})\\b`);
const suppressions = new RegExp(
  ['biome' + '-ignore', '@ts' + '-ignore', '@ts' + '-expect-error', '@ts' + '-nocheck', 'eslint' + '-disable'].join(
    '|',
  ),
);

const bannedNames = new Set(['util', 'utils', 'helper', 'helpers', 'manager', 'types', 'interfaces']);
const bannedWords = new Set(['job', 'jobs', 'flow', 'flows', 'canceled', 'canceling']);
const kebabName = /^[a-z0-9]+(-[a-z0-9]+)*(\.[a-z0-9]+(-[a-z0-9]+)*)*$/;

export const checkFileLength: FileCheck = (file) => {
  const lines = splitLines(file.text).length;
  return lines > fileLinesMax
    ? [{ path: file.path, line: lines, what: `${lines} lines, at most ${fileLinesMax}` }]
    : [];
};

export const checkWidth: FileCheck = (file) =>
  findLines(file, (line) => {
    // In characters as an editor counts them, not in UTF-16 units.
    const columns = [...line].length;
    return columns > lineColumnsMax ? `${columns} columns, at most ${lineColumnsMax}` : null;
  });

export const checkOpenEnds: FileCheck = (file) => findLines(file, (line) => openEnds.exec(line)?.[0] ?? null);

export const checkSuppressions: FileCheck = (file) => findLines(file, (line) => suppressions.exec(line)?.[0] ?? null);

export const checkKebabCase: FileCheck = (file) => {
  const wrong = file.path.split('/').find((part) => !kebabName.test(part));
  return wrong === undefined ? [] : [{ path: file.path, line: 1, what: `${wrong} is not kebab-case` }];
};

export const checkFileName: FileCheck = (file) => {
  const words = path.posix.basename(file.path).split(/[-.]/);
  const banned = words.find((word) => bannedNames.has(word) || isBannedWord(word));
  return banned === undefined ? [] : [{ path: file.path, line: 1, what: `the name says ${banned}` }];
};

/** The word of the glossary's black list in a name; null where there is none. `workflow` is one word. */
export function findBannedWord(name: string): string | null {
  const words = name.split(/[^A-Za-z]+|(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])/);
  return words.find(isBannedWord) ?? null;
}

function isBannedWord(word: string): boolean {
  return bannedWords.has(word.toLowerCase());
}

function splitLines(text: string): string[] {
  return text.replace(/\n$/, '').split('\n');
}

function findLines(file: StyleFile, judge: (line: string) => string | null): Finding[] {
  return splitLines(file.text).flatMap((line, index) => {
    const what = judge(line);
    return what === null ? [] : [{ path: file.path, line: index + 1, what }];
  });
}
