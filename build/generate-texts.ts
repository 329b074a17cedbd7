// Generates what the product embeds as text or figures: the executor's shell scripts, and which build this is.
import path from 'node:path';
import { type GeneratedFile, generatedHeader, templateLiteral } from './generated-file.ts';
import { listFiles, readPackage, readReleaseMs, readText } from './project.ts';

/** Every src/executor/*.sh as a string constant: `launcher.sh` is `launcherScript`. */
export function generateScripts(root: string): GeneratedFile[] {
  const files = listFiles(root, ['src/executor']).filter((file) => file.endsWith('.sh'));
  const constants = files.map((file) => {
    const words = path.basename(file, '.sh').split('-');
    const name = words
      .map((word, index) => (index === 0 ? word : `${word[0]?.toUpperCase()}${word.slice(1)}`))
      .join('');
    return `export const ${name}Script = ${templateLiteral(readText(root, file))};\n`;
  });
  const text = constants.length === 0 ? 'export {};\n' : constants.join('\n');
  return [{ path: 'src/executor/scripts.generated.ts', text: `${generatedHeader('src/executor/*.sh')}${text}` }];
}

export function generateBuildInfo(root: string): GeneratedFile[] {
  const { version } = readPackage(root);
  const text = `${generatedHeader('package.json and CHANGELOG.md')}
/**
 * The version, and the date of its heading in the change log. No clock is right that shows an earlier time.
 */
export const buildInfo = { version: '${version}', buildDateMs: ${readReleaseMs(root)} } as const;
`;
  return [{ path: 'src/runtime/build-info.generated.ts', text }];
}
