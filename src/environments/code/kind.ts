import path from 'node:path';
import { bytesOf } from '../../platform/size.js';
import { tokenOf } from '../http/token.js';
import { defineKind, inJavaScript } from '../kind.js';
import { createCode } from './environment.js';
import { createLocalSandbox } from './local-sandbox.js';
import { createRemoteSandbox } from './remote-sandbox.js';
import { CodeSettings } from './settings.js';

export const code = defineKind({
  settings: CodeSettings,
  answers: ({ url }) => (url === null ? 'on this machine' : 'a service'),
  roles: ['environment'],
  resolve: (settings, directory) => {
    const { python } = settings;
    const isPath = python?.includes(path.sep) === true;
    return isPath ? { ...settings, python: path.resolve(directory, python) } : settings;
  },
  make: inJavaScript((settings: CodeSettings, context) => {
    const { url, max_answer } = settings;
    const { answers, report } = context;
    const max_answer_bytes = bytesOf(max_answer);
    const token = tokenOf(settings, context);
    const sandbox =
      url === null
        ? createLocalSandbox({ settings, report })
        : createRemoteSandbox({ url, token, settings, max_answer_bytes, answers });
    return createCode(settings, sandbox);
  }),
});
