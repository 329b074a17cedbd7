// The data directory itself, packages, whom to trust and what the device gives.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { mustRun, type Operation, queryRows, readSiteFile, type Site, unless } from '../operation.ts';
import { findRunsTrouble, installCutPackage, packageName, queueRun, writeCutPackage } from './cut-package.ts';
import { defineOperation } from './define.ts';

const publicKey = '3b6a27bcceb6a42d62a3a8d02a6f0d73653215771de243a63ac048a18b59da29';
const keyFile = (site: Site) => join(site.root, 'publisher.key');
const settingName = 'TOKEN';

/** The states of the package's generations, the oldest first, and of its last publication. */
function findPackageTrouble(site: Site, ...expected: readonly string[]): readonly string[] {
  const found = [
    ...queryRows(site, 'SELECT state FROM PackageInstallations ORDER BY generation'),
    ...queryRows(site, 'SELECT state FROM AutomationPublications ORDER BY version DESC LIMIT 1'),
  ].map(({ state }) => `${state}`);
  return unless(found.join() === expected.join(), `its states are ${found.join()} instead of ${expected.join()}`);
}

function findCountTrouble(site: Site, table: string, count: number): readonly string[] {
  const found = queryRows(site, `SELECT 1 FROM ${table}`).length;
  return unless(found === count, `${table} has ${found} rows instead of ${count}`);
}

async function addKey(site: Site): Promise<void> {
  writeFileSync(keyFile(site), publicKey);
  await mustRun(site, 'publisher', 'add', keyFile(site));
  // Noted, because after a cut only the product should open the database.
  writeFileSync(join(site.root, 'key-id'), `${queryRows(site, 'SELECT keyId FROM Publishers')[0]?.['keyId']}`);
}

export const packageOperations: readonly Operation[] = [
  defineOperation({
    name: 'create',
    title: 'a data directory is made: five migrations',
    prepare: async () => {},
    act: () => ['serve', '--until-idle'],
    findTrouble: (site) => findCountTrouble(site, 'Migrations', 5),
  }),
  defineOperation({
    name: 'package-install',
    title: 'a package is installed and published',
    prepare: async (site) => {
      await mustRun(site, 'serve', '--until-idle');
      writeCutPackage(site);
    },
    act: (site) => ['package', 'install', join(site.root, 'package-1.0.0')],
    findTrouble: (site) => findPackageTrouble(site, 'active', 'active'),
  }),
  defineOperation({
    name: 'package-update',
    title: 'a generation takes the place of another, whose files go',
    prepare: async (site) => {
      await installCutPackage(site);
      writeCutPackage(site, '2.0.0');
    },
    act: (site) => ['package', 'install', join(site.root, 'package-2.0.0')],
    findTrouble: (site) => findPackageTrouble(site, 'superseded', 'active', 'active'),
  }),
  defineOperation({
    name: 'package-uninstall',
    title: 'a package is removed, with what it published and its files',
    prepare: installCutPackage,
    act: () => ['package', 'uninstall', packageName],
    findTrouble: (site) => findPackageTrouble(site, 'removed', 'absent'),
  }),
  defineOperation({
    name: 'package-quarantine',
    title: 'a quarantine cancels three queued runs: several operations in one commit',
    prepare: async (site) => {
      await installCutPackage(site);
      await queueRun(site, 'pair');
      await queueRun(site, 'pair');
      await queueRun(site, 'single');
    },
    act: () => ['package', 'quarantine', packageName, '--reason', 'evidence'],
    findTrouble: (site) => [
      ...findCountTrouble(site, 'PackageQuarantines', 1),
      ...findRunsTrouble(site, 'cancelled', 'cancelled', 'cancelled'),
    ],
  }),
  defineOperation({
    name: 'publisher-add',
    title: 'a key is trusted',
    prepare: async (site) => {
      await mustRun(site, 'serve', '--until-idle');
      writeFileSync(keyFile(site), publicKey);
    },
    act: (site) => ['publisher', 'add', keyFile(site)],
    findTrouble: (site) => findCountTrouble(site, 'Publishers WHERE revokedAtMs IS NULL', 1),
  }),
  defineOperation({
    name: 'publisher-revoke',
    title: 'a key is trusted no more',
    prepare: addKey,
    act: (site) => ['publisher', 'revoke', readSiteFile(site, 'key-id'), '--reason', 'evidence'],
    findTrouble: (site) => findCountTrouble(site, 'Publishers WHERE revokedAtMs IS NOT NULL', 1),
  }),
  defineOperation({
    name: 'settings-set',
    title: 'a setting of the device is changed',
    prepare: async (site) => {
      await installCutPackage(site);
      await mustRun(site, 'settings', 'set', packageName, settingName, 'before');
    },
    act: () => ['settings', 'set', packageName, settingName, 'after'],
    findTrouble: (site) => findCountTrouble(site, "PackageSettings WHERE value = 'after'", 1),
  }),
];
