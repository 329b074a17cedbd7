import t from 'tap';
import { readComponent } from '../../build/components.ts';
import { projectRoot, readPackage } from '../../build/project.ts';
import { buildSbom } from '../../build/sbom.ts';
import { sha256 } from '../../src/core/hash.ts';

const files = [{ name: 'qinglong-edge.cjs', sha256: sha256('program') }];
const components = [readComponent(projectRoot, 'valibot'), readComponent(projectRoot, 'yaml')];
const product = readPackage(projectRoot);
const sbom = buildSbom({ product, components, files });

t.test('the head is that of CycloneDX 1.6, without time and serial number', async (t) => {
  t.same(Object.keys(sbom).sort(), [
    '$schema',
    'bomFormat',
    'components',
    'dependencies',
    'metadata',
    'specVersion',
    'version',
  ]);
  t.match(sbom, { bomFormat: 'CycloneDX', specVersion: '1.6', version: 1 });
  t.match(sbom.metadata, {
    component: {
      type: 'application',
      name: 'qinglong-edge',
      version: product.version,
      purl: `pkg:npm/qinglong-edge@${product.version}`,
      licenses: [{ license: { id: 'Apache-2.0' } }],
    },
  });
  t.notHas(sbom.metadata, { timestamp: String });
});

t.test('each bundled package is named with version, licence, address and the hash of its archive', async (t) => {
  const libraries = sbom.components.filter(({ type }) => type === 'library');
  t.same(
    libraries.map(({ name }) => name),
    ['valibot', 'yaml'],
  );
  for (const [index, library] of libraries.entries()) {
    const component = components[index]!;
    t.match(library, {
      version: component.version,
      purl: `pkg:npm/${component.name}@${component.version}`,
      licenses: [{ license: { id: component.license } }],
      hashes: [{ alg: 'SHA-512', content: /^[0-9a-f]{128}$/ }],
    });
  }
  t.same(
    components.map(({ license }) => license),
    ['MIT', 'ISC'],
  );
});

t.test('each shipped file is named with its hash', async (t) => {
  t.match(
    sbom.components.find(({ type }) => type === 'file'),
    { name: 'qinglong-edge.cjs', hashes: [{ alg: 'SHA-256', content: sha256('program') }] },
  );
});

t.test('references are unique, and every dependency points to one of them', async (t) => {
  const references = [sbom.metadata.component['bom-ref'], ...sbom.components.map((component) => component['bom-ref'])];
  t.equal(new Set(references).size, references.length);
  for (const { ref, dependsOn } of sbom.dependencies) {
    t.ok(references.includes(ref), ref);
    t.ok(
      dependsOn.every((name) => references.includes(name)),
      dependsOn.join(),
    );
  }
});

t.test('a package that the lock file does not know cannot be shipped', async (t) => {
  const root = t.testdir({
    'package-lock.json': '{"packages":{}}',
    node_modules: { odd: { 'package.json': '{"version":"1.0.0","license":"MIT"}', LICENSE: 'free' } },
  });
  t.throws(() => readComponent(root, 'odd'), { code: 'invalid', message: /^odd cannot be shipped/ });
});

t.test('a package in a scope has an escaped address', async (t) => {
  const component = { ...components[0]!, name: '@scope/name', version: '2.0.0' };
  const { components: described } = buildSbom({ product, components: [component], files: [] });
  t.match(described, [{ purl: 'pkg:npm/%40scope/name@2.0.0' }]);
});
