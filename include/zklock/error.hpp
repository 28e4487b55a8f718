/* zklock/error.hpp - zklock::error, and how C's results become it. C++11. */
#ifndef ZKLOCK_ERROR_HPP
#define ZKLOCK_ERROR_HPP

#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include <zklock/zklock.h>

namespace std
{
template <> struct is_error_code_enum<zkl_result> : true_type {
};
} // namespace std

namespace zklock
{

namespace detail
{

class zklock_category final : public std::error_category
{
  public:
    const char *name() const noexcept override { return "zklock"; }
    std::string message(int code) const override { return zkl_strerror(code); }
    /* Codes that the standard has a name for. */
    std::error_condition default_error_condition(int code) const noexcept override
    {
        switch (code) {
        case ZKL_ETIMEOUT:
            return std::errc::timed_out;
        case ZKL_EBUSY:
            return std::errc::device_or_resource_busy;
        case ZKL_ECANCELED:
            return std::errc::operation_canceled;
        case ZKL_EDEADLK:
            return std::errc::resource_deadlock_would_occur;
        case ZKL_ENOTHELD:
            return std::errc::operation_not_permitted;
        case ZKL_EAUTH:
            return std::errc::permission_denied;
        case ZKL_ENOENT:
            return std::errc::no_such_file_or_directory;
        case ZKL_EINVAL:
            return std::errc::invalid_argument;
        case ZKL_ENOMEM:
            return std::errc::not_enough_memory;
        case ZKL_EUNSUPPORTED:
            return std::errc::not_supported;
        default:
            return std::error_condition(code, *this);
        }
    }
};

} // namespace detail

inline const std::error_category &category() noexcept
{
    static const detail::zklock_category only;
    return only;
}

class error : public std::system_error
{
  public:
    error(int code, const zkl_error &details)
        : std::system_error(code, category()),
          text_(std::make_shared<const std::string>(details.text)),
          path_(std::make_shared<const std::string>(details.path)), zk_code_(details.zk_code)
    {
    }
    const char *what() const noexcept override { return text_->c_str(); }
    /* The znode concerned; empty when none is. */
    const std::string &path() const noexcept { return *path_; }
    /* ZooKeeper's own code, 0 when ZooKeeper reported none. */
    int zk_code() const noexcept { return zk_code_; }

  private:
    std::shared_ptr<const std::string> text_,
        path_; /* shared: to copy an exception may not throw */
    int zk_code_;
};

namespace detail
{

/* Calls `call` with a zkl_error to fill. Throws the code it returns, unless that is ZKL_OK (true)
 * or one of the two that mean false. */
template <class Call> bool check(Call call, int no = ZKL_OK, int no_either = ZKL_OK)
{
    zkl_error details = zkl_error();
    int code = call(&details);
    if (code == ZKL_OK) {
        return true;
    }
    if (code == no || code == no_either) {
        return false;
    }
    if (!details.text[0]) {
        std::string(zkl_strerror(code)).copy(details.text, sizeof details.text - 1);
    }
    throw error(code, details);
}

inline int refuse(zkl_error *details, const std::string &why)
{
    why.copy(details->text, sizeof details->text - 1);
    return ZKL_EINVAL;
}

/* As an argument of C, which would cut it at a NUL: two names would be one znode. */
inline const char *words(const std::string &text)
{
    check([&](zkl_error *details) -> int {
        bool whole = text.find('\0') == std::string::npos;
        return whole ? ZKL_OK : refuse(details, "a string has a NUL in it");
    });
    return text.c_str();
}

/* Calls a function of C whose last argument is a zkl_error. */
template <class Function, class... Args> void call(Function function, Args... args)
{
    check([&](zkl_error *details) { return function(args..., details); });
}

/* The same; false when it returns this code. */
template <class Function, class... Args> bool call_unless(int no, Function function, Args... args)
{
    return check([&](zkl_error *details) { return function(args..., details); }, no);
}

/* A caller's options, which may be those of another release: shorter ones leave the rest as it is;
 * of longer ones nothing may be set that there is no room for here. A size that no release has
 * (each adds whole pointers) is for C to refuse. */
template <class Options> void take(Options &own, const Options *given)
{
    const size_t most = 4096, room = sizeof own, size = given ? given->size : room;
    if (size == 0 || size > most || size % sizeof(void *) != room % sizeof(void *)) {
        own.size = size;
        return;
    }
    const unsigned char *bytes = reinterpret_cast<const unsigned char *>(given);
    check([&](zkl_error *details) -> int {
        for (size_t i = room; i < size; i++) {
            if (bytes[i] != 0) {
                return refuse(details, "an option that this program's headers do not have is set");
            }
        }
        return ZKL_OK;
    });
    if (given) {
        std::memcpy(&own, given, size < room ? size : room);
        own.size = room;
    }
}

/* The same of one that makes an object, which it writes to its first argument. */
template <class Made, class Function, class... Args> Made *make(Function function, Args... args)
{
    Made *made = nullptr;
    call(function, &made, args...);
    return made;
}

/* Owns an object of C, and the functions that it calls, which are freed after it. */
template <class Object, void (*Free)(Object *)> struct freer {
    std::shared_ptr<void> calls;
    void operator()(Object *object) const noexcept { Free(object); }
};
template <class Object, void (*Free)(Object *)>
using owner = std::unique_ptr<Object, freer<Object, Free>>;

/* The functions of an owner. The payload of C is the address of this pointer to them. */
template <class Functions>
std::shared_ptr<std::shared_ptr<Functions>> make_calls(Functions functions)
{
    return std::make_shared<std::shared_ptr<Functions>>(
        std::make_shared<Functions>(std::move(functions)));
}

/* A call of C keeps the functions by this until it returns: one of them may destroy the owner. */
template <class Functions> std::shared_ptr<Functions> calls_of(void *payload)
{
    return *static_cast<std::shared_ptr<Functions> *>(payload);
}

} // namespace detail

/* How long a call may take: any std::chrono::duration, rounded up to whole ms. A time that has
 * passed is a try, one that is too long to count is for ever. */
class time_limit
{
  public:
    template <class Rep, class Period> time_limit(const std::chrono::duration<Rep, Period> &time)
    {
        double ms = std::ceil(std::chrono::duration<double, std::milli>(time).count());
        ms_ = !(ms > 0) ? 0 : ms < 9e15 ? static_cast<int64_t>(ms) : ZKL_WAIT_FOREVER;
    }
    /* As timeout_ms of C. */
    int64_t ms() const noexcept { return ms_; }

  private:
    int64_t ms_;
};

} // namespace zklock

/* Found by the type of its argument, which stands in no namespace: code() == ZKL_ELOST. */
inline std::error_code make_error_code(zkl_result code) noexcept
{
    return std::error_code(code, zklock::category());
}

#endif
