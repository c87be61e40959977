// SPDX-License-Identifier: Apache-2.0
// Asio's and Beast's function bodies, compiled once here instead of in every file that includes
// them.
#include <boost/asio/impl/src.hpp>
#include <boost/beast/src.hpp>
