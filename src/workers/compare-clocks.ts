import { Connection } from '@temporalio/client';
import type { Logger } from 'pino';
import { describeError } from '../platform/errors.js';
import { clockAhead } from '../temporal/server-clock.js';
import { differenceText, takeAhead } from '../platform/waits/common-clock.js';
import type { Config } from './config.js';
import { connectionSettings } from './connection-settings.js';

/** For connecting, and for the answers. */
const WITHIN_MS = 10_000;
/** A clock may be set while the worker runs. */
export const COMPARE_EVERY_MS = 10 * 60_000;

/** Has this process go by the server's clock if its host's differs. A worker's own connection ends no call early. */
export async function compareClocks(
  config: Pick<Config, 'temporal'>,
  { log, within_ms = WITHIN_MS }: { log: Pick<Logger, 'warn' | 'debug'>; within_ms?: number },
): Promise<void> {
  try {
    const { options, namespace } = connectionSettings(config);
    // `Connection.connect` keeps what it could not connect, which tries for ever.
    const connection = Connection.lazy({ ...options, connectTimeout: within_ms });
    try {
      await connection.ensureConnected();
      const ahead = await connection.withDeadline(Date.now() + within_ms, () =>
        clockAhead(connection, { namespace }),
      );
      if (ahead === null || !takeAhead(ahead)) return;
      const what = `this host's clock is ${differenceText(ahead)} the Temporal server's`;
      log.warn(`${what}: rollouts are timed by the server's; set the clock (NTP)`);
    } finally {
      await connection.close();
    }
  } catch (error) {
    log.debug(`the server's clock is not known: ${describeError(error)}`);
  }
}
