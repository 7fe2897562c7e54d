import { hostname } from 'node:os';
import path from 'node:path';
import { claimFile, describeClaimant } from '../../../src/platform/claim.js';

/**
 * One process at a time writes a collection's files. Claims them by a file beside the output; returns a function that
 * releases them. Throws if another process has them.
 */
export async function claimOutput({
  output,
  claim_file,
}: {
  output: string;
  claim_file: string;
}): Promise<() => Promise<void>> {
  const claim = await claimFile(claim_file);
  if (claim.release !== null) return claim.release;
  const { claimant } = claim;
  const ifGone =
    claimant.host === hostname()
      ? '.'
      : `; if it is gone for good, remove ${path.relative('', claim_file)}.`;
  throw new Error(
    `${describeClaimant(claimant)} is collecting into ${output}: two would write each result twice. Wait for it or end it${ifGone}`,
  );
}
