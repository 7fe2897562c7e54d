import { hostname } from 'node:os';
import { z } from 'zod';
import { parsedAs } from '../../model/unknown-fields.js';
import type { Activities } from '../contract.js';
import type { Dependencies } from '../dependencies.js';
import { contentBelow, tokenFile } from './inputs.js';

const AskedInputs = z.strictObject({
  token: z
    .string()
    .regex(/^[0-9a-f]{32}$/, 'expected 32 hexadecimal digits')
    .nullable(),
});

/**
 * Tells a client where samples are read. A client that can write there proves it by a token: a file of a random name,
 * which is read here. So a disk that only has the same path, and a file that only its writer may read, are found out
 * before a large file is written. The worker itself needs no right to write.
 */
export function createFindInputs({
  attempt,
  deployment: { inputs_dir, sample_bytes },
}: Pick<Dependencies, 'attempt' | 'deployment'>): Activities['findInputs'] {
  return (input) =>
    attempt(async () => {
      const { token } = parsedAs(AskedInputs, { input });
      return {
        inputs_dir,
        worker: `${process.pid}@${hostname()}`,
        most_characters: sample_bytes,
        sees: token !== null && (await reads(token, inputs_dir)),
      };
    });
}

async function reads(token: string, inputsDirectory: string): Promise<boolean> {
  try {
    return (await contentBelow(inputsDirectory, tokenFile(token))) === token;
  } catch {
    return false;
  }
}
