'use strict';
// The platforms with an addon, each in a package of its own. They are the cases of `lib/native.js`, and those that the workflow builds.

const { isMusl } = require('./libc.js');

/** The scope of the packages of platforms. */
const SCOPE = '@windrow-rs';

const TARGETS = ['linux-x64', 'linux-arm64', 'linux-x64-musl', 'linux-arm64-musl', 'darwin-x64', 'darwin-arm64', 'win32-x64'];

/** The name of this platform. */
function target() {
  const { platform, arch } = process;
  return `${platform}-${arch}${platform === 'linux' && isMusl('/proc/self/exe') ? '-musl' : ''}`;
}

module.exports = { SCOPE, TARGETS, target };
