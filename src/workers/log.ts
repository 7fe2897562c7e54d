import { pino, type Logger } from 'pino';
import { plainJson } from '../platform/plain.js';
import { withoutSecrets } from '../platform/secrets.js';

/** Writes line by line to standard output, like pino, but as plain text without this process's secrets. */
export function createLog(level: string): Logger {
  const output = pino.destination({ dest: 1, sync: true });
  return pino(
    { name: 'worker', level },
    {
      write: (line: string) => {
        output.write(plainJson(withoutSecrets(line)));
      },
    },
  );
}
