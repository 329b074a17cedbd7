// The bounds in the SQL are those of core, by the names that stand beside them.
import t from 'tap';
import { listFiles, projectRoot, readText } from '../../../build/project.ts';
import { limits } from '../../../src/core/limits.ts';

t.test('a bound in the schema is the constant that it names', async (t) => {
  const lines = listFiles(projectRoot, ['schema/postgres']).flatMap((file) => readText(projectRoot, file).split('\n'));
  const bounds = lines.flatMap((line) => {
    const found = /(?:<= |BETWEEN \d+ AND )(\d+)\).*-- (4 × )?(\w+Max)$/.exec(line);
    return found === null ? [] : [{ value: Number(found[1]), factor: found[2] === undefined ? 1 : 4, name: found[3]! }];
  });
  t.ok(bounds.length >= 18, `${bounds.length} bounds are named`);
  for (const { value, factor, name } of bounds) {
    t.equal(value, factor * (limits as Readonly<Record<string, number>>)[name]!, name);
  }
});
