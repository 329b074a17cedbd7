import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { packProgram, renameParts } from '../../build/pack.ts';

/** Runs a packed program; prints what it left. */
function run(t: Test, text: string) {
  const file = path.join(t.testdir({}), 'program.cjs');
  writeFileSync(file, text, 'latin1');
  const { status, stdout, stderr } = spawnSync(process.execPath, [file, 'word'], { encoding: 'utf8' });
  return { status, stdout, stderr, file };
}

t.test('parts ask for each other and for Node, each is evaluated once, and only when it is asked for', async (t) => {
  const parts = [
    {
      name: './0.js',
      code: 'const a=require("./1.js");require("./1.js");console.log(a.word,require("node:path").sep)',
    },
    { name: './1.js', code: 'console.log("one");exports.word=process.argv[2];exports.back=require("./0.js")' },
    { name: './2.js', code: 'throw 1' },
  ];
  t.match(run(t, packProgram(parts, './0.js', 24)), { status: 0, stdout: 'one\nword /\n', stderr: '' });
});

t.test('any text comes back byte for byte', async (t) => {
  const text = '`${x}`*/ \\ \u00e9';
  const code = `process.stdout.write(Buffer.from(${JSON.stringify(text)}).toString('hex'))`;
  const { stdout } = run(t, packProgram([{ name: './0.js', code }], './0.js', 24));
  t.equal(stdout, Buffer.from(text).toString('hex'));
});

t.test('a part comes out of whichever box it is in, and parts that share a box are stored once', async (t) => {
  const filler = (word: string) => `exports.x="${word.repeat(20_000)}".length;`;
  const parts = [
    {
      name: './0.js',
      code: 'console.log(require("./1.js").x,require("./4.js").x,require("./3.js").x,require("./2.js").x)',
    },
    ...['ab', 'cd', 'efgh', 'ij'].map((word, index) => ({ name: `./${index + 1}.js`, code: filler(word) })),
  ];
  const text = packProgram(parts, './0.js', 24);
  t.equal(text.split('()=>{/*').length - 1, 4, 'boxes: the largest part has one to itself');
  t.match(run(t, text), { status: 0, stdout: '40000 40000 80000 40000\n' });
});

t.test('an error names the part that it comes from', async (t) => {
  const code = 'function broken(){throw new TypeError("here")}\nbroken()';
  const { status, stderr, file } = run(t, packProgram([{ name: './0.js', code }], './0.js', 24));
  t.not(status, 0);
  t.match(stderr, `${file}/0.js:1`);
});

t.test('parts are named by their place, also where they ask for each other', async (t) => {
  const parts = [
    { name: './main.js', code: 'require("./ABCD.js");require("node:fs");require("./OTHER.js")' },
    { name: './ABCD.js', code: '1' },
  ];
  t.same(renameParts(parts, ['./ABCD.js', './main.js']).parts, [
    { name: './0.js', code: '1' },
    { name: './1.js', code: 'require("./0.js");require("node:fs");require("./OTHER.js")' },
  ]);
});

t.test('an older Node is refused in plain words, before any part is touched', async (t) => {
  const parts = [{ name: './0.js', code: 'this is no JavaScript' }];
  t.match(run(t, packProgram(parts, './0.js', 999)), {
    status: 4,
    stdout: '',
    stderr: new RegExp(`needs Node.js 999 or later, this is ${process.version}; run it with a newer node\n$`),
  });
});
