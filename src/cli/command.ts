// What a command is: its words, what it takes, and the function behind it. The table of all of them is commands.ts.
import type { Mistake } from '../core/errors.ts';
import type { Alarm, Clock } from '../core/ports.ts';
import type { GivenSettings } from '../runtime/settings.ts';
import type { OptionName, OptionValues, TextRule } from './options.ts';
import type { Output } from './output.ts';
import type { SharedSite } from './shared-place.ts';
import type { Storage } from './storage.ts';

export type Parameter = {
  /** As help shows it, such as `DIR`. */
  readonly name: string;
  readonly isRequired: boolean;
  readonly rule: TextRule;
  /** Whether no message may repeat what was typed for this command. */
  readonly isSecret?: boolean;
};

export type Command = {
  readonly words: readonly string[];
  readonly parameters: readonly Parameter[];
  /** Beside the global ones. */
  readonly options: readonly OptionName[];
  /** Those of its options that it cannot do without. */
  readonly requiredOptions?: readonly OptionName[];
  /** What must hold between arguments and options. */
  readonly check?: (input: Input) => readonly Mistake[];
  readonly summary: string;
  /** Loads the module behind the command, which is slow to load on a small machine, only when it is called. */
  readonly load: () => Promise<Handler>;
};

/** A whole command line: what it is for, its commands, and the options that each of them takes. */
export type CommandLine = {
  readonly about: string;
  readonly commands: readonly Command[];
  readonly globalOptions: readonly OptionName[];
};

export type Input = {
  /** In the order of the command's parameters; the required ones are there. */
  readonly arguments: readonly string[];
  readonly options: OptionValues;
};

export type Context = {
  readonly output: Output;
  readonly storage: Storage;
  /** The database that several runtimes share; null where the data directory has its own. */
  readonly shared: SharedSite | null;
  readonly clock: Clock;
  readonly alarm: Alarm;
  /** Absolute path of the data directory. */
  readonly data: string;
  /** As it was asked for; null takes the default. */
  readonly runDirectory: string | null;
  readonly profile: 'edge' | 'standalone' | null;
  readonly durability: string | null;
  /** The settings that were given as options. */
  readonly givenSettings: GivenSettings;
  readonly environment: (name: string) => string | null;
  /** How this program is called again for the same directory: in what a command says to do next. */
  readonly self: string;
  /** The same, to be typed in any directory and by anyone: for a log. */
  readonly selfAnywhere: string;
  /**
   * Sees what an interrupt of the terminal, or whoever manages the process, asks for. Returns how to stop listening.
   */
  onSignal(listener: (signal: NodeJS.Signals) => void): () => void;
};

/** Returns the exit code. What it throws is told and mapped by whoever called. */
export type Handler = (context: Context, input: Input) => Promise<number>;
