import { readdir, rm, rmdir } from 'node:fs/promises';
import path from 'node:path';
import type { Formats } from '../../model/results/arrow/formats.js';
import type { Disk } from '../../platform/files.js';
import { isMissing } from '../../platform/files.js';
import type { StepOutputs } from '../trajectory-store.js';
import { createFileOutputs } from './outputs.js';
import { storing } from '../storing.js';

/** The rows of a stream's step, in the step's folder. */
export function createStepOutputs(
  directory: string,
  options: { disk: Disk; formats: Formats },
): StepOutputs {
  const outputs = createFileOutputs(directory, options);
  const { metrics } = outputs.files;
  return {
    ...outputs,
    forget: () =>
      storing(`forgetting ${directory}`, async () => {
        // First: a step that has its metrics counts as written.
        await rm(metrics, { force: true });
        for (const name of (await namesIn(directory)).filter((one) => OUTPUTS.test(one)))
          await rm(path.join(directory, name), { recursive: true, force: true });
        // The step's fact may be there.
        await rmdir(directory).catch(() => undefined);
      }),
  };
}

/** Results, parts of them, and files that an interrupted attempt has left. */
const OUTPUTS = /^(parts$|(rollouts|failures|groups|metrics)\.json|rollouts\.arrow)/;

async function namesIn(directory: string): Promise<string[]> {
  try {
    return await readdir(directory);
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}

/** One after the other: a stream is in no hurry. */
export async function forgetJournals(
  { rows, repeats }: { rows: readonly number[]; repeats: number },
  fileOf: (place: { row: number; repeat: number }) => string,
): Promise<void> {
  for (const row of rows)
    for (let repeat = 0; repeat < repeats; repeat++)
      await rm(fileOf({ row, repeat }), { force: true });
}
