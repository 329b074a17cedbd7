// What must hold for the bundles: what they import, what they evaluate at start, their size, what they give away.
import { type Bundle, listEagerPackages, listExternals } from './bundle-options.ts';

/** Of the program, minified (evidence.md, budgets). */
export const programBytesMax = 300_000;

// Evaluated only when first needed: each costs memory and start-up time that most processes never pay.
const latePackages = ['yaml', 'croner'];

const requests = /\b(?:require|import)\(\s*["'`]([^"'`]+)["'`]/g;

/** Modules that are asked for outside of Node, by esbuild's record and by the text itself. */
export function findForeignImports({ entry, bytes, code, metafile }: Bundle): string[] {
  const isPart = (name: string) => entry.isProgram && /^\.\/[\w-]+\.js$/.test(name);
  const isAllowed = (name: string) => name.startsWith('node:') || isPart(name);
  const texts = [...code, Buffer.from(bytes).toString('latin1')];
  const asked = texts.flatMap((text) => [...text.matchAll(requests)].map(([, name]) => name ?? ''));
  const foreign = new Set([...listExternals(metafile), ...asked].filter((name) => !isAllowed(name)));
  return [...foreign].map((name) => `${entry.output} imports ${name}`);
}

export function findEager({ entry, metafile }: Bundle): string[] {
  const eager = listEagerPackages(metafile, entry.source).filter((name) => latePackages.includes(name));
  return eager.map((name) => `${entry.output} evaluates ${name} at start; use import() where it is needed`);
}

export function findOversize({ entry, bytes }: Bundle): string[] {
  const isOver = entry.isProgram && bytes.length > programBytesMax;
  return isOver ? [`${entry.output} has ${bytes.length} bytes, at most ${programBytesMax}`] : [];
}

/** Files that tell where they were made: the project's folder, or where a package was downloaded from. */
export function findTraces(files: ReadonlyMap<string, string | Uint8Array>, root: string): string[] {
  return [...files].flatMap(([name, contents]) => {
    const text = Buffer.from(contents).toString();
    const isLock = name.endsWith('package-lock.json');
    const traces = [
      text.includes(`${root}/`) ? `${name} names ${root}` : null,
      isLock && text.includes('"resolved"') ? `${name} says where packages were downloaded from` : null,
      name.endsWith('.npmrc') && /registry\s*=|_auth/i.test(text) ? `${name} names a registry` : null,
    ];
    return traces.filter((trace) => trace !== null);
  });
}
