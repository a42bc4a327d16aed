// USB at full speed on two pins of the top, whose clock has four cycles a bit.
#pragma once
#include "full_speed.h"
#include "session.h"

namespace {

class Line : public usb::UsbLine<usb::FullSpeedBus> {
  public:
    explicit Line(const char*)
        : UsbLine([this](bool d_p, bool d_n) {
              d_p_ = d_p;
              d_n_ = d_n;
              give_way();
              return device_;
          }, 0.0, 1) {}
    template <class Top> void begin(Top& top) {
        top.usb_d_p_i = 1;
        top.usb_d_n_i = 0;
    }
    template <class Top> void drive(Top& top) {
        go_on();
        top.usb_d_p_i = d_p_;
        top.usb_d_n_i = d_n_;
    }
    template <class Top> void half(Top&) {}
    template <class Top> void sample(Top& top) {
        device_ = {bool(top.usb_d_p_oe), bool(top.usb_d_p_o), bool(top.usb_d_n_o), bool(top.usb_pullup)};
    }

  private:
    bool d_p_ = true, d_n_ = false;
    usb::FullSpeedBus::Device device_{};
};

}  // namespace
