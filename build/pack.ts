// Packs the program into its one file: the parts that esbuild splits it into, each deflated, in base64, and turned
// into a module when something first asks for it. Measured against the same code in one piece: 250 KB instead of 450
// KB of flash, and 0.6 MiB less memory, for what is never asked for is never parsed.
import path from 'node:path';
import { deflateRawSync } from 'node:zlib';

export type Part = {
  /** As the parts name each other, such as `./main.js`. */
  readonly name: string;
  /** CommonJS, minified, one-byte characters. */
  readonly code: string;
};

// The text of a part is a comment inside a function, which no parser copies; `toString` gives it back without its
// frame, `()=>{/*` and `*/}`. Base64 has no asterisk, so nothing in it can end the comment.
const frame = { before: '()=>{/*', after: '*/}' };

/**
 * The loader. A part is evaluated once; what is no part is a module of Node. The whole file is in memory from the
 * start: replacing it while the program runs changes nothing for that process.
 */
const loader = [
  'const{inflateRawSync:i}=require("node:zlib"),{compileFunction:c}=require("node:vm"),l={};',
  'function r(n){',
  'const s=p[n];if(s===undefined)return require(n);',
  'let m=l[n];if(m===undefined){m=l[n]={exports:{}};',
  `const t=i(Buffer.from(\`\${s}\`.slice(${frame.before.length},-${frame.after.length}),"base64")).latin1Slice();`,
  'c(t,["exports","require","module"],{filename:`${__filename}/${n.slice(2)}`})(m.exports,r,m)}',
  'return m.exports}',
].join('');

/** Said before anything is loaded that an older Node does not have; 4 is the exit code of `unavailable`. */
function demandNode(major: number): string {
  const what = `needs Node.js ${major} or later, this is `;
  const hint = '; run it with a newer node';
  return [
    `if(Number.parseInt(process.versions.node)<${major}){`,
    `process.stderr.write("qinglong-edge: unavailable: ${what}"+process.version+"${hint}\\n");process.exit(4)}`,
  ].join('');
}

/** One CommonJS file that runs the part `main` on this version of Node or a later one. Deterministic for one zlib. */
export function packProgram(parts: readonly Part[], main: string, nodeMajor: number): string {
  const packed = parts.map(({ name, code }) => {
    const text = deflateRawSync(Buffer.from(code, 'latin1'), { level: 9 }).toString('base64');
    return `"${name}":${frame.before}${text}${frame.after}`;
  });
  const head =
    '#!/usr/bin/env node\n"use strict";// Parts are deflated text in base64; the project says how: build/pack.ts';
  return `${head}\n${demandNode(nodeMajor)}\nconst p={${packed.join(',\n')}};\n${loader}r("${main}");\n`;
}

/** The name by which the parts ask for the file that esbuild wrote at `file`. */
export function partName(file: string): string {
  return `./${path.basename(file)}`;
}

/** Gives the parts names by their place in `order`, also where they ask for each other; sorts them so. */
export function renameParts(parts: readonly Part[], order: readonly string[]) {
  const names = new Map(order.map((name, index) => [name, `./${index}.js`]));
  const renamed = parts.map(({ name, code }) => ({
    name: names.get(name)!,
    code: code.replaceAll(
      /"(\.\/[\w-]+\.js)"/g,
      (quoted, asked: string) => `"${names.get(asked) ?? quoted.slice(1, -1)}"`,
    ),
  }));
  const sorted = order.flatMap((name) => renamed.filter((part) => part.name === names.get(name)));
  return { names, parts: sorted };
}
