import { execFileSync, spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import path from 'node:path';

/** Why tests of certificates are skipped; false: they are not. */
export const noOpenssl: string | false =
  spawnSync('openssl', ['version']).status === 0 ? false : 'needs openssl';

/** PEM files. */
export interface Pair {
  cert: string;
  key: string;
}

export interface Authority {
  /** Its own certificate. */
  file: string;
  /** `host`: a name or an address of the certificate's owner; `days`: negative ones have passed. */
  sign: (name: string, options?: { host?: string; days?: number }) => Pair;
}

const NEW_KEY = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];

const openssl = (...args: string[]): void => {
  execFileSync('openssl', args, { stdio: 'pipe' });
};

/** An authority whose files are in `folder`, by its name. */
export function makeAuthority(folder: string, name: string): Authority {
  const file = (what: string): string => path.join(folder, what);
  const [own, ownKey] = [file(`${name}.pem`), file(`${name}.key`)];
  openssl('req', '-x509', ...NEW_KEY, '-keyout', ownKey, '-out', own, '-subj', `/CN=${name}`);
  return {
    file: own,
    sign: (subject, { host = '127.0.0.1', days = 2 } = {}) => {
      const pair = { cert: file(`${name}-${subject}.pem`), key: file(`${name}-${subject}.key`) };
      const [asked, extensions] = [`${pair.cert}.asked`, `${pair.cert}.extensions`];
      openssl('req', ...NEW_KEY, '-keyout', pair.key, '-out', asked, '-subj', `/CN=${subject}`);
      const kind = /^[\d.]+$/.test(host) ? 'IP' : 'DNS';
      writeFileSync(
        extensions,
        `basicConstraints=critical,CA:FALSE\nsubjectAltName=${kind}:${host}\n`,
      );
      const by = ['-CA', own, '-CAkey', ownKey, '-days', String(days), '-extfile', extensions];
      openssl('x509', '-req', '-in', asked, ...by, '-out', pair.cert);
      return pair;
    },
  };
}

/** A server's certificate that nobody else has signed. */
export function selfSigned(folder: string, name: string): Pair {
  const pair = { cert: path.join(folder, `${name}.pem`), key: path.join(folder, `${name}.key`) };
  const names = ['-subj', `/CN=${name}`, '-addext', 'subjectAltName=IP:127.0.0.1'];
  openssl('req', '-x509', ...NEW_KEY, '-keyout', pair.key, '-out', pair.cert, ...names);
  return pair;
}
