// Run as a process of its own: checks the package directory in its argument and prints which of the bundled libraries
// that are to be evaluated late were asked for.
import { registerHooks } from 'node:module';

const evaluated: string[] = [];
registerHooks({
  resolve(specifier, context, next) {
    if (specifier === 'yaml') {
      evaluated.push(specifier);
    }
    return next(specifier, context);
  },
});

const { checkPackage } = await import('../../src/runtime/package-source.ts');
await checkPackage(process.argv[2]!);
process.stdout.write(`${evaluated.join(' ') || 'nothing'}\n`);
