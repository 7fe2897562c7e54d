/** A process that claims a file whenever its parent names one, says whether it got it, and gives it back on request. */
import { claimFile } from '../../src/platform/claim.js';

let release = (): Promise<void> => Promise.resolve();

process.on('message', (order: { claim: string } | 'release') => {
  void (async () => {
    if (order === 'release') {
      await release();
      process.send?.('released');
      return;
    }
    const claim = await claimFile(order.claim);
    if (claim.release !== null) ({ release } = claim);
    process.send?.(claim.release === null ? 'refused' : 'claimed');
  })();
});
process.send?.('ready');
