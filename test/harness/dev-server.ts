import path from 'node:path';
import { Client, Connection } from '@temporalio/client';
import { LOOPBACK_CHANNEL } from '../../src/client/loopback.js';
import { chooseServerPorts, startDevServer } from '../../src/dev/dev-server.js';
import { findTemporalCli } from '../../src/dev/temporal-cli.js';
import type { Ports } from '../../src/dev/dev-server.js';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';

export { PROJECT_ROOT };

export interface TestServer {
  /** `127.0.0.1:<port>` */
  address: string;
  namespace: string;
  client: Client;
  ports: Ports;
  pid: number;
  /** Closes the connection and ends the process. */
  stop: () => Promise<void>;
}

export interface TestServerOptions {
  /** For its log, `temporal.log`. */
  directory: string;
  /** null: in memory. A file survives `stop`, for a server that starts again. */
  db_file?: string | null;
  /** Those of a server that starts again; else free ones. */
  ports?: Ports;
}

/** `temporal server start-dev` as the project itself starts it; it ends with this process, however that ends. */
export async function startTestServer({
  directory,
  db_file = null,
  ports,
}: TestServerOptions): Promise<TestServer> {
  const cli = await findTemporalCli({
    env: process.env,
    projectRoot: PROJECT_ROOT,
    say: console.log,
  });
  const chosen = ports ?? (await chooseServerPorts({ server: 0, ui: 0 }));
  const server = await startDevServer({
    cliPath: cli.path,
    ports: chosen,
    dbFile: db_file,
    headless: true,
    logFile: path.join(directory, 'temporal.log'),
  });
  const { address, namespace, pid } = server;
  const connection = await connect(address).catch(async (error: unknown) => {
    await server.stop();
    throw error;
  });
  return {
    address,
    namespace,
    pid,
    ports: chosen,
    client: new Client({ connection, namespace }),
    stop: async () => {
      await connection.close();
      await server.stop();
    },
  };
}

const connect = (address: string): Promise<Connection> =>
  Connection.connect({ address, channelArgs: LOOPBACK_CHANNEL, connectTimeout: '10s' });
