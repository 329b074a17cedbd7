// Packs the program into its one file: the parts that esbuild splits it into, several to a box, each box compressed, in
// base64, and a part turned into a module when something first asks for it. What is never asked for is never parsed.
// Measured for 670 KB of code: 250 KB of flash; with each part deflated by itself it was 345 KB.
import path from 'node:path';
import { brotliCompressSync, constants } from 'node:zlib';

export type Part = {
  /** As the parts name each other, such as `./main.js`. */
  readonly name: string;
  /** CommonJS, minified, one-byte characters. */
  readonly code: string;
};

// What is unpacked together is in memory together, and must be unpacked to reach one part of it: enough for parts to
// share their words, and little enough to take a fraction of a millisecond.
const boxBytesMax = 64 * 1024;

// The text of a box is a comment inside a function, which no parser copies; `toString` gives it back without its
// frame, `()=>{/*` and `*/}`. Base64 has no asterisk, so nothing in it can end the comment.
const frame = { before: '()=>{/*', after: '*/}' };

/**
 * The loader. `p` says of each part in which box of `b` it is, from where to where. A box that was unpacked a moment
 * ago may still be there (`w`). A part is evaluated once; what is no part is a module of Node. The whole file is in
 * memory from the start: replacing it while the program runs changes nothing for that process.
 */
const loader = [
  'const{brotliDecompressSync:i}=require("node:zlib"),{compileFunction:c}=require("node:vm"),l={},w=[];',
  'function u(k){let t=w[k]?.deref();if(t===undefined){',
  `t=i(Buffer.from(\`\${b[k]}\`.slice(${frame.before.length},-${frame.after.length}),"base64"));w[k]=new WeakRef(t)}`,
  'return t}',
  'function r(n){',
  'const s=p[n];if(s===undefined)return require(n);',
  'let m=l[n];if(m===undefined){m=l[n]={exports:{}};',
  'const t=u(s[0]).latin1Slice(s[1],s[2]);',
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

/** One CommonJS file that runs the part `main` on this version of Node or a later one. Deterministic for one Brotli. */
export function packProgram(parts: readonly Part[], main: string, nodeMajor: number): string {
  const boxes = fillBoxes(parts);
  const places = boxes.flatMap((box, index) => {
    let end = 0;
    return box.map(({ name, code }) => {
      const start = end;
      end += code.length;
      return `"${name}":[${index},${start},${end}]`;
    });
  });
  const packed = boxes.map((box) => `${frame.before}${compress(box)}${frame.after}`);
  const head =
    '#!/usr/bin/env node\n"use strict";// Parts are Brotli text in base64; the project says how: build/pack.ts';
  const tables = `const p={${places.join(',')}};\nconst b=[${packed.join(',\n')}];\n`;
  return `${head}\n${demandNode(nodeMajor)}\n${tables}${loader}r("${main}");\n`;
}

/** In the order given; a part that is larger than a box has one to itself. */
function fillBoxes(parts: readonly Part[]): readonly (readonly Part[])[] {
  const boxes: Part[][] = [];
  let bytes = Number.POSITIVE_INFINITY;
  for (const part of parts) {
    if (bytes + part.code.length > boxBytesMax) {
      boxes.push([]);
      bytes = 0;
    }
    boxes.at(-1)!.push(part);
    bytes += part.code.length;
  }
  return boxes;
}

function compress(box: readonly Part[]): string {
  const text = Buffer.from(box.map(({ code }) => code).join(''), 'latin1');
  const params = {
    [constants.BROTLI_PARAM_MODE]: constants.BROTLI_MODE_TEXT,
    [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY,
    [constants.BROTLI_PARAM_SIZE_HINT]: text.length,
  };
  return brotliCompressSync(text, { params }).toString('base64');
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
