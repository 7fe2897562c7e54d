/** How many problems are reported in full; the rest are counted. */
const SAID = 10;

export interface ProblemList {
  add(text: string): void;
  /** Reports how many more there were. */
  end(): void;
}

/** A broken file has as many problems as lines: the first ones are reported one by one, then their number. */
export function createProblemList(kind: string, report: (line: string) => void): ProblemList {
  let count = 0;
  return {
    add: (text) => {
      count += 1;
      if (count <= SAID) report(text);
    },
    end: () => {
      if (count > SAID) report(`${count - SAID} more ${kind}`);
    },
  };
}
