import type { Readable } from 'node:stream';
import type { Printed, Printing } from './output.js';
import { createOutput } from './output.js';

/** The launcher's outputs carry those of its commands, one after the other: which bytes are whose. */

export interface PrintedBy extends Printed {
  /** Resolves once so much of each has come. */
  until: (counts: { stdout: number; stderr: number }) => Promise<void>;
}

interface Current extends Printing {
  come: { stdout: number; stderr: number };
  more: () => void;
}

export function createOutputs(outputs: { stdout: Readable; stderr: Readable }) {
  let current = begun();
  for (const name of ['stdout', 'stderr'] as const)
    outputs[name].on('data', (chunk: Buffer) => {
      current[name](chunk);
      current.come[name] += chunk.length;
      current.more();
    });
  return {
    begin: (most_output?: number): PrintedBy => {
      const mine = (current = begun(most_output));
      const { tail, output, is_cut, come } = mine;
      return {
        ...{ tail, output, is_cut },
        until: async (counts) => {
          while (come.stdout < counts.stdout || come.stderr < counts.stderr)
            await new Promise<void>((resolve) => (mine.more = resolve));
        },
      };
    },
  };
}

const begun = (most_output?: number): Current => ({
  ...createOutput(most_output),
  come: { stdout: 0, stderr: 0 },
  more: () => undefined,
});
