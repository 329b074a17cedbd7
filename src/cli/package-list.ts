// `package list` and `package show`: what is installed.
import { listAskedSettings } from '../core/package-setting.ts';
import { remedyOfRevoked } from '../protocol/package.ts';
import { type PackageHead, read } from '../protocol/reads.ts';
import { localProjectId } from '../runtime/settings.ts';
import { type Cell, formatPairs, formatTable } from './columns.ts';
import type { Context, Input } from './command.ts';
import { exitCodes, refusal } from './failure.ts';
import { withReader } from './session.ts';
import type { Tone } from './terminal.ts';
import { formatElapsed, formatTime } from './times.ts';

/** What an operator has to know first: a quarantine stands above every other state. */
export function packageState({ isQuarantined, isPublisherRevoked, lifecycle }: PackageHead): {
  readonly text: string;
  readonly tone: Tone;
} {
  if (isQuarantined) {
    return { text: lifecycle.state === 'uninstalled' ? 'uninstalled, quarantined' : 'quarantined', tone: 'red' };
  }
  if (isPublisherRevoked) {
    return { text: lifecycle.state === 'uninstalled' ? 'uninstalled, key revoked' : 'key revoked', tone: 'red' };
  }
  return { text: lifecycle.state, tone: lifecycle.state === 'active' ? 'green' : 'yellow' };
}

export async function listCommand(context: Context): Promise<number> {
  const { output, self } = context;
  const heads = await withReader(context, (reader) => reader.read(read('packages', { projectId: localProjectId })));
  if (output.isJson) {
    output.printJson({ packages: heads.map(packageDocument) });
  } else if (heads.length === 0) {
    output.note(`no packages; install one: ${self} package install DIR`);
  } else {
    const rows = heads.map((head): readonly Cell[] => {
      const { target, version, installedAtMs } = head.installation;
      return [
        target.packageName,
        version,
        `${target.generation}`,
        packageState(head),
        `${head.revision.workflows.length}`,
        formatTime(installedAtMs),
        head.revision.title ?? '',
      ];
    });
    const heading = ['PACKAGE', 'VERSION', 'GENERATION', 'STATE', 'WORKFLOWS', 'INSTALLED', 'TITLE'];
    output.print(...formatTable(heading, rows, output.paint));
  }
  return exitCodes.done;
}

function packageDocument(head: PackageHead): object {
  const { installation, lifecycle, publication, revision, isQuarantined, isPublisherRevoked } = head;
  const { target, version, installedAtMs, publisherKeyId } = installation;
  return {
    packageName: target.packageName,
    version,
    title: revision.title,
    generation: target.generation,
    installationId: target.installationId,
    lockDigest: target.lockDigest,
    materializedRevisionDigest: target.materializedRevisionDigest,
    state: lifecycle.state,
    reason: lifecycle.reason,
    isQuarantined,
    quarantineReason: head.quarantineReason,
    signedBy: publisherKeyId,
    isPublisherRevoked,
    publication: { state: publication.state, version: publication.version, digest: publication.publicationDigest },
    installedAtMs,
    workflows: revision.workflows.map(({ id }) => id),
    tasks: revision.tasks.map(({ id }) => id),
  };
}

export async function showCommand(context: Context, input: Input): Promise<number> {
  const { output, self } = context;
  const packageName = input.arguments[0]!;
  const head = await withReader(context, (reader) =>
    reader.read(read('package', { projectId: localProjectId, packageName })),
  );
  if (head === null) {
    const hint = `see \`${self} package list\``;
    return output.fail(refusal('not-found', `package ${packageName} is not installed`, hint));
  }
  if (output.isJson) {
    const { workflows, tasks } = head.revision;
    output.printJson({ ...packageDocument(head), workflows, tasks });
  } else {
    output.print(...showPackage(head, output.paint));
  }
  return exitCodes.done;
}

function describeQuarantine({ quarantineReason }: PackageHead): Cell | null {
  return quarantineReason === null
    ? null
    : { text: `${quarantineReason}; nothing of it starts: install other bytes`, tone: 'red' };
}

function describeSigner({ installation, isPublisherRevoked }: PackageHead): Cell | null {
  const { publisherKeyId: keyId } = installation;
  return isPublisherRevoked
    ? { text: `${keyId}, which is revoked: nothing of it starts; ${remedyOfRevoked}`, tone: 'red' }
    : keyId;
}

function showPackage(head: PackageHead, paint: Context['output']['paint']): readonly string[] {
  const { installation, lifecycle, publication, revision } = head;
  const { target } = installation;
  const pairs: readonly (readonly [string, Cell | null])[] = [
    ['package', `${target.packageName} ${installation.version}`],
    ['title', revision.title],
    ['state', packageState(head)],
    ['reason', lifecycle.reason],
    ['quarantined', describeQuarantine(head)],
    ['generation', `${target.generation}, installed ${formatTime(installation.installedAtMs)}`],
    ['published', `${publication.state}, version ${publication.version}`],
    ['lock digest', target.lockDigest],
    ['signed by', describeSigner(head)],
  ];
  const workflows = revision.workflows.map(({ id, enabled, steps, timeoutMs, concurrency, title }): readonly Cell[] => [
    id,
    enabled ? 'enabled' : { text: 'disabled', tone: 'yellow' },
    steps.map(({ stepKey, needs }) => (needs.length === 0 ? stepKey : `${stepKey} < ${needs.join(', ')}`)).join('; '),
    timeoutMs === null ? '' : formatElapsed(timeoutMs),
    concurrency === null ? '' : `${concurrency}`,
    title ?? '',
  ]);
  const tasks = revision.tasks.map(({ id, enabled, argv, env, timeoutMs, retry, user, title }): readonly Cell[] => [
    id,
    enabled ? 'enabled' : { text: 'disabled', tone: 'yellow' },
    argv.join(' '),
    formatElapsed(timeoutMs),
    `${retry.limit}`,
    user ?? '',
    listAskedSettings([{ id, env }]).join(', '),
    title ?? '',
  ]);
  return [
    ...formatPairs(pairs, paint),
    '',
    ...formatTable(['WORKFLOW', 'STATE', 'STEPS (step < needs)', 'TIMEOUT', 'AT ONCE', 'TITLE'], workflows, paint),
    '',
    ...formatTable(['TASK', 'STATE', 'COMMAND', 'TIMEOUT', 'RETRIES', 'USER', 'SETTINGS', 'TITLE'], tasks, paint),
  ];
}
