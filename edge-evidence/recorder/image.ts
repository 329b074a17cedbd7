// Images of disks: read from a folder, written to one, compared, and told apart by their content.
import { createHash } from 'node:crypto';
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import type { Entry, Image } from './disk.ts';

/** What is below a folder, but for what `isLeftOut` names; FIFOs and sockets are no part of any disk. */
export function readImage(folder: string, isLeftOut: (path: string) => boolean = () => false): Image {
  const image = new Map<string, Entry>();
  const visit = (path: string) => {
    const file = join(folder, path);
    const stats = lstatSync(file);
    const mode = stats.mode & 0o7777;
    if (stats.isFile()) {
      image.set(path, { kind: 'file', bytes: readFileSync(file), mode });
    } else if (stats.isSymbolicLink()) {
      image.set(path, { kind: 'link', text: readlinkSync(file) });
    } else if (stats.isDirectory()) {
      image.set(path, { kind: 'directory', mode });
      for (const name of readdirSync(file).sort()) {
        const below = path === '' ? name : `${path}/${name}`;
        if (!isLeftOut(below)) {
          visit(below);
        }
      }
    }
  };
  visit('');
  return image;
}

/** Makes the folder hold the image and nothing else. */
export function writeImage(image: Image, folder: string): void {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  for (const [path, entry] of image) {
    const file = join(folder, path);
    if (entry.kind === 'file') {
      writeFileSync(file, entry.bytes);
    } else if (entry.kind === 'link') {
      symlinkSync(entry.text, file);
    } else if (path !== '') {
      mkdirSync(file);
    }
  }
  // Last, and the innermost first: a directory may be one that not even its owner writes to.
  for (const [path, entry] of [...image].reverse()) {
    if (entry.kind !== 'link') {
      chmodSync(join(folder, path), entry.mode);
    }
  }
}

// By the buffer itself: whoever changes bytes makes new ones.
const digests = new WeakMap<Buffer, string>();

export function digestBytes(bytes: Buffer): string {
  const known = digests.get(bytes);
  if (known !== undefined) {
    return known;
  }
  const digest = createHash('sha256').update(bytes).digest('base64');
  digests.set(bytes, digest);
  return digest;
}

/** Equal for two entries that nobody could tell apart. */
export function digestEntry(entry: Entry): string {
  if (entry.kind === 'file') {
    return `${entry.mode.toString(8)} ${digestBytes(entry.bytes)}`;
  }
  return entry.kind === 'link' ? `to ${entry.text}` : `${entry.mode.toString(8)} directory`;
}

/** Equal for two images that hold the same, whatever the order. */
export function digestImage(image: Image): string {
  const lines = [...image].map(([path, entry]) => `${path} ${digestEntry(entry)}`).sort();
  return createHash('sha256').update(lines.join('\n')).digest('base64');
}

/** The part of an image below a path, by the paths there; null where there is nothing at it. */
export function subImage(image: Image, path: string): Image | null {
  const own = image.get(path);
  if (own === undefined) {
    return null;
  }
  const below = [...image].filter(([name]) => name.startsWith(`${path}/`));
  return new Map([['', own], ...below.map(([name, entry]) => [name.slice(path.length + 1), entry] as const)]);
}

/** Where two images differ, one line each. */
export function compareImages(found: Image, expected: Image): readonly string[] {
  const paths = [...new Set([...found.keys(), ...expected.keys()])].sort();
  return paths.flatMap((path) => {
    const [one, other] = [found.get(path), expected.get(path)];
    if (one === undefined || other === undefined) {
      return [`${path} is ${one === undefined ? 'missing' : 'there, and should not be'}`];
    }
    return digestEntry(one) === digestEntry(other) ? [] : [`${path} is ${describe(one)} instead of ${describe(other)}`];
  });
}

function describe(entry: Entry): string {
  if (entry.kind === 'file') {
    return `${entry.bytes.length} bytes, ${entry.mode.toString(8)}, ${digestBytes(entry.bytes).slice(0, 8)}`;
  }
  return entry.kind === 'link' ? `a link to ${entry.text}` : `a directory, ${entry.mode.toString(8)}`;
}
