import t from 'tap';
import { readManifest } from '../../src/core/manifest.ts';
import { settingVariableRule } from '../../src/core/manifest-rules.ts';
import { withTask } from './manifest-samples.ts';

t.test('no setting fills a variable that shells use themselves; text does', async (t) => {
  const rule = settingVariableRule('IFS');
  t.match(rule, /name that shells use themselves: no setting can fill it/);
  const reading = readManifest(withTask({ env: { IFS: { setting: 'sep' }, PWD: { setting: 'a', default: 'b' } } }));
  t.match(reading, {
    mistakes: [
      { path: 'tasks.probe.env.IFS', rule },
      { path: 'tasks.probe.env.PWD', rule },
    ],
  });
  t.ok('manifest' in readManifest(withTask({ env: { IFS: ':', IFS_OF_IT: { setting: 'IFS' } } })));
});
