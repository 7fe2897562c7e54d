import { link, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import path from 'node:path';
import { z } from 'zod';
import { identify, isAlive } from '../../local/process-identity.js';

/** One process at a time writes a collection's files. */
const ClaimFile = z.object({
  pid: z.int(),
  command: z.string(),
  started: z.string().nullable().default(null),
  host: z.string(),
});
type ClaimFile = z.infer<typeof ClaimFile>;

const ROUNDS = 5;

/**
 * Claims an output file for this process, by a file beside it; returns what gives it back. Throws where a living
 * process has it, or one of another host, of which nothing is known.
 */
export async function claimOutput({
  output,
  claim_file,
}: {
  output: string;
  claim_file: string;
}): Promise<() => Promise<void>> {
  const mine: ClaimFile = { ...(await identify(process.pid)), host: hostname() };
  // Written whole under a name of its own first: nobody reads half a claim.
  const draft = `${claim_file}.${process.pid}`;
  await writeFile(draft, JSON.stringify(mine));
  try {
    for (let round = 0; !(await isLinked(draft, claim_file)); round++) {
      const text = await readFile(claim_file, 'utf8').catch(() => null);
      if (text === null) continue;
      if (round >= ROUNDS || !(await isStale(text))) throw taken(text, { output, claim_file });
      await removeStale(claim_file, { text, aside: `${draft}.stale` });
    }
  } finally {
    await rm(draft, { force: true });
  }
  return () => rm(claim_file, { force: true });
}

async function isLinked(draft: string, claimFile: string): Promise<boolean> {
  try {
    await link(draft, claimFile);
    return true;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return false;
    throw error;
  }
}

function parse(text: string): ClaimFile | null {
  try {
    return ClaimFile.parse(JSON.parse(text));
  } catch {
    return null;
  }
}

async function isStale(text: string): Promise<boolean> {
  const claim = parse(text);
  return claim === null || (claim.host === hostname() && !(await isAlive(claim)));
}

/** Another process may have done the same since, and claimed: then its claim goes back where it was. */
async function removeStale(
  claimFile: string,
  { text, aside }: { text: string; aside: string },
): Promise<void> {
  try {
    await rename(claimFile, aside);
  } catch {
    return;
  }
  if ((await readFile(aside, 'utf8')) !== text) {
    await link(aside, claimFile).catch(() => undefined);
  }
  await rm(aside, { force: true });
}

function taken(
  text: string,
  { output, claim_file }: { output: string; claim_file: string },
): Error {
  const claim = parse(text);
  const who =
    claim === null
      ? 'another process'
      : `process ${claim.pid}${claim.host === hostname() ? '' : ` of host ${claim.host}`}`;
  return new Error(
    `${who} is collecting into ${output}: two would write each result twice. Wait for it or end it` +
      (claim?.host === hostname()
        ? '.'
        : `; if it is gone for good, remove ${path.relative('', claim_file)}.`),
  );
}
