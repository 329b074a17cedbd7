// What was found at each gate, as it is found; a gate that the drill never came to has not passed.
import { hasPassed, type Scenario } from '../report.ts';
import { allGates, type Gate } from './gates.ts';

export type Findings = {
  /** Adds a failure unless it holds; either way it was tried. */
  expect(holds: boolean, what: string): void;
  /** The same for a check that tells everything that is wrong. */
  take(failures: readonly string[]): void;
  figure(name: string, value: number): void;
};

export class Scoreboard {
  readonly #found = new Map<Gate, { tried: number; figures: Record<string, number>; failures: string[] }>();

  at(gate: Gate): Findings {
    const entry = this.#found.get(gate) ?? { tried: 0, figures: {}, failures: [] };
    this.#found.set(gate, entry);
    return {
      expect(holds, what) {
        entry.tried += 1;
        entry.failures.push(...(holds ? [] : [what]));
      },
      take(failures) {
        entry.tried += 1;
        entry.failures.push(...failures);
      },
      figure(name, value) {
        entry.figures[name] = Math.round(value);
      },
    };
  }

  /** All gates. `stoppedBy` says why the drill ended early; null where it went to its end. */
  scenarios(stoppedBy: string | null): readonly Scenario[] {
    return allGates.map((gate) => {
      const { tried = 0, figures = {}, failures = [] } = this.#found.get(gate) ?? {};
      // A control that was not come to must not pass by this very sentence: nothing untried passes.
      const stopped = tried === 0 && stoppedBy !== null ? [`the drill did not come this far: ${stoppedBy}`] : [];
      const scenario = { ...gate, figures: { tried, ...figures }, failures: [...failures, ...stopped] };
      return { ...scenario, passed: hasPassed(scenario) };
    });
  }
}
