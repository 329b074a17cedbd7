// Run as a process of its own, to be killed: checks the package in its first argument and copies it into the packages
// directory in its second.
import { copyPackage } from '../../src/runtime/package-copy.ts';
import { checkPackage } from '../../src/runtime/package-source.ts';

const [directory, packagesDirectory] = process.argv.slice(2) as [string, string];
const checked = await checkPackage(directory);
process.stdout.write('checked\n');
const { outcome } = await copyPackage({ checked, packagesDirectory });
process.stdout.write(`${outcome}\n`);
