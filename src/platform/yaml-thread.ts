import { parentPort, workerData } from 'node:worker_threads';
import { parse } from 'yaml';

/** The thread of `parseForeignYaml`: posts the value, or throws the parser's error. */

// As PyYAML has it, a key that is given twice has its last value: looking for such keys takes quadratic time.
const options = { logLevel: 'silent', uniqueKeys: false } as const;
parentPort?.postMessage(parse(workerData as string, options));
