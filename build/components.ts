// The packages inside the bundles: version, licence, where they come from. Owns the licence texts that have to ship.
import { readdirSync } from 'node:fs';
import path from 'node:path';
import { EdgeError } from '../src/core/errors.ts';
import { readText } from './project.ts';

export type Component = {
  readonly name: string;
  readonly version: string;
  /** SPDX identifier. */
  readonly license: string;
  readonly licenseText: string;
  /** SHA-512 of the package's archive, as hex digits, from the lock file. */
  readonly archiveSha512: string;
};

type LockFile = { readonly packages: Readonly<Record<string, { readonly integrity?: string } | undefined>> };

/** Throws `invalid` where a package ships no licence text or the lock file does not know its archive. */
export function readComponent(root: string, name: string): Component {
  const folder = `node_modules/${name}`;
  const { version, license } = JSON.parse(readText(root, `${folder}/package.json`));
  const licenseText = findLicenseText(root, folder);
  const lock: LockFile = JSON.parse(readText(root, 'package-lock.json'));
  const integrity = lock.packages[folder]?.integrity;
  if (licenseText === null || integrity === undefined || !integrity.startsWith('sha512-')) {
    throw new EdgeError('invalid', `${name} cannot be shipped: no licence text, or no SHA-512 in the lock file`, {
      hint: 'bundle only packages that carry their licence; run npm install to mend the lock file',
    });
  }
  const archiveSha512 = Buffer.from(integrity.slice('sha512-'.length), 'base64').toString('hex');
  return { name, version, license, licenseText, archiveSha512 };
}

/** A file of its own, or the last section of the read-me. */
function findLicenseText(root: string, folder: string): string | null {
  const files = readdirSync(path.join(root, folder));
  const file = files.find((entry) => /^licen[cs]e(\.(md|txt))?$/i.test(entry));
  if (file !== undefined) {
    return readText(root, `${folder}/${file}`).trim();
  }
  const readme = files.find((entry) => /^readme\.md$/i.test(entry));
  const text = readme === undefined ? '' : readText(root, `${folder}/${readme}`);
  return (
    /\n#+ *licen[cs]e *\n+(Copyright|The MIT License)[^#]*$/i
      .exec(text)?.[0]
      .replace(/^\n#+.*\n+/, '')
      .trim() ?? null
  );
}

/** One text with the licence of each bundled package. */
export function printLicenses(components: readonly Component[]): string {
  const parts = components.map(
    ({ name, version, license, licenseText }) => `${name} ${version} (${license})\n\n${licenseText}\n`,
  );
  return ['The files in this folder contain code of these packages.\n', ...parts].join('\n---\n\n');
}
