import t from 'tap';
import { calledAs } from '../../src/cli/called-as.ts';

const directory = '/home/me/project';
const searchPath = '/usr/local/bin:/usr/bin';

t.test('a program that PATH leads to is called by its name', async (t) => {
  const call = { node: 'node', file: '/usr/local/bin/qinglong-edge', directory, searchPath };
  t.equal(calledAs(call), 'qinglong-edge');
});

t.test('any other is called as a file, from the directory where that is shorter to say', async (t) => {
  const of = (file: string, node = 'node') => calledAs({ node, file, directory, searchPath });
  t.equal(of('/home/me/project/dist/qinglong-edge.cjs'), 'node dist/qinglong-edge.cjs');
  t.equal(of('/opt/edge/qinglong-edge.cjs'), 'node /opt/edge/qinglong-edge.cjs');
  t.equal(of('/home/me/project/my edge.cjs', '/opt/node/bin/node'), "/opt/node/bin/node 'my edge.cjs'");
});

t.test('for a log, which is read anywhere, the path of the program is absolute', async (t) => {
  const file = '/opt/qle/dist/qinglong-edge.cjs';
  t.equal(calledAs({ node: 'node', file, directory: '/', searchPath: '' }), 'node opt/qle/dist/qinglong-edge.cjs');
  t.equal(calledAs({ node: 'node', file, directory: null, searchPath: '' }), `node ${file}`);
});
