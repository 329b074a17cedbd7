// The software bill of materials, CycloneDX 1.6. Without time stamp and serial number, so that the same sources give
// the same bytes.
import type { Component } from './components.ts';
import type { PackageJson } from './project.ts';

export type ShippedFile = { readonly name: string; readonly sha256: string };

export function buildSbom(options: {
  readonly product: PackageJson;
  readonly components: readonly Component[];
  readonly files: readonly ShippedFile[];
}) {
  const { product, components, files } = options;
  const productRef = packageUrl(product);
  return {
    $schema: 'http://cyclonedx.org/schema/bom-1.6.schema.json',
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    version: 1,
    metadata: {
      component: {
        type: 'application',
        'bom-ref': productRef,
        name: product.name,
        version: product.version,
        description: product.description,
        licenses: [{ license: { id: product.license } }],
        purl: productRef,
      },
    },
    components: [...components.map(describeLibrary), ...files.map(describeFile)],
    dependencies: [
      { ref: productRef, dependsOn: components.map(packageUrl) },
      ...components.map((component) => ({ ref: packageUrl(component), dependsOn: [] })),
    ],
  };
}

function packageUrl({ name, version }: { readonly name: string; readonly version: string }): string {
  return `pkg:npm/${name.replace('@', '%40')}@${version}`;
}

function describeLibrary(component: Component) {
  return {
    type: 'library',
    'bom-ref': packageUrl(component),
    name: component.name,
    version: component.version,
    scope: 'required',
    hashes: [{ alg: 'SHA-512', content: component.archiveSha512 }],
    licenses: [{ license: { id: component.license } }],
    purl: packageUrl(component),
  };
}

function describeFile({ name, sha256 }: ShippedFile) {
  return { type: 'file', 'bom-ref': `file:${name}`, name, hashes: [{ alg: 'SHA-256', content: sha256 }] };
}
